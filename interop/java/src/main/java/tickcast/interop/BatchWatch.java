package tickcast.interop;

import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmConsumerEvent;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.UpdateMsg;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;

/** The streams of one batch request: hands each message to its item. */
final class BatchWatch extends Watch {
    private final Map<String, WatchedItem> byName = new HashMap<>();
    private final Map<Long, WatchedItem> byHandle = new HashMap<>();
    private long batchHandle;
    private String fault;

    void add(WatchedItem item) {
        byName.put(item.name, item);
    }

    /** The handle of the request itself, whose status answers the batch as a whole. */
    void isOf(long handle) {
        batchHandle = handle;
    }

    /** A message that belongs to none of the items, null if there is none. */
    String fault() {
        return fault;
    }

    @Override
    public void onRefreshMsg(RefreshMsg m, OmmConsumerEvent event) {
        hand(m, event, item -> item.onRefreshMsg(m, event));
    }

    @Override
    public void onUpdateMsg(UpdateMsg m, OmmConsumerEvent event) {
        hand(m, event, item -> item.onUpdateMsg(m, event));
    }

    @Override
    public void onStatusMsg(StatusMsg m, OmmConsumerEvent event) {
        if (!m.hasName() && !byHandle.containsKey(event.handle())) {
            Json.line("batch_status", "state", m.hasState() ? m.state().toString() : null,
                    "of_batch", event.handle() == batchHandle);
            return;
        }
        hand(m, event, item -> item.onStatusMsg(m, event));
    }

    @Override
    public void onGenericMsg(GenericMsg m, OmmConsumerEvent event) {
        hand(m, event, item -> item.onGenericMsg(m, event));
    }

    @Override
    public void onAckMsg(AckMsg m, OmmConsumerEvent event) {
        hand(m, event, item -> item.onAckMsg(m, event));
    }

    /** Streams are told by their handles; the first message of one has the name. */
    private void hand(Msg m, OmmConsumerEvent event, Consumer<WatchedItem> take) {
        WatchedItem item = byHandle.get(event.handle());
        if (item == null && m.hasName()) {
            item = byName.get(m.name());
            if (item != null) {
                byHandle.put(event.handle(), item);
            }
        }
        if (item == null) {
            fault = "a message of the batch for no item of it: " + (m.hasName() ? m.name() : "no name");
        } else {
            take.accept(item);
        }
    }
}
