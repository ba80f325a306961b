package tickcast.interop;

import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.OmmConsumerEvent;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.UpdateMsg;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/** One item of one domain: its image, states and sequence numbers as the library delivered them. */
final class WatchedItem extends Watch {
    final int domain;
    final String name;
    final Image image;
    final StateLog states;
    final SequenceCheck sequence = new SequenceCheck();
    private final PostLog posts;
    private final boolean showUpdates;
    private final Consumer<WatchedItem> onMessage;
    private Runnable afterUpdate = () -> { };

    private long refreshCount;
    private long imageCount;
    private long updateCount;
    private long statusCount;
    private long updatesWhileSuspectCount;
    private boolean imageIsOpenEnded;
    private long solicitedImageCount;
    private long genericCount;
    private long genericsOutOfOrderCount;
    private long lastGeneric;
    private long lastMessageNs = System.nanoTime();
    private long handle;
    /** The view that the next solicited refresh begins, null: none is to come. */
    private View nextView;

    /**
     * @param posts takes the answers to posts
     * @param showUpdates print a line for each update
     * @param onMessage called after every message of this item
     */
    WatchedItem(int domain, String name, Map<Integer, String> fieldNames, List<String> expectedStates,
            PostLog posts, boolean showUpdates, Consumer<WatchedItem> onMessage) {
        this.domain = domain;
        this.name = name;
        this.image = new Image(fieldNames);
        this.states = new StateLog(expectedStates);
        this.posts = posts;
        this.showUpdates = showUpdates;
        this.onMessage = onMessage;
    }

    @Override
    public void onRefreshMsg(RefreshMsg m, OmmConsumerEvent event) {
        began(event);
        refreshCount++;
        if (nextView != null && m.solicited()) {
            image.setViews(nextView, null);
            nextView = null;
        }
        // A refresh is a new image; of one in several parts, the parts after the first add to it.
        if (!imageIsOpenEnded || m.clearCache() || m.hasPartNum() && m.partNum() == 0) {
            image.clear();
        }
        imageIsOpenEnded = !m.complete();
        image.merge(m.payload().dataType(), m.payload().data());
        imageCount += m.complete() ? 1 : 0;
        solicitedImageCount += m.complete() && m.solicited() ? 1 : 0;
        sequence.onRefresh(m.hasSeqNum() ? m.seqNum() : -1);
        states.add(m.state());
        Json.line("refresh", "item", name, "domain", domain,
                "service", m.hasServiceName() ? m.serviceName() : null, "solicited", m.solicited(),
                "complete", m.complete(), "clear_cache", m.clearCache(),
                "part", m.hasPartNum() ? m.partNum() : null, "seq", m.hasSeqNum() ? m.seqNum() : null,
                "qos", m.hasQos() ? m.qos().toString() : null, "group", Value.hexText(m.itemGroup()),
                "permission_data", m.hasPermissionData() ? Value.hexText(m.permissionData()) : null,
                "private", m.privateStream() ? true : null, "state", states.last(), "key", KeyParts.of(m),
                "updates_before", updateCount);
        onMessage.accept(this);
    }

    @Override
    public void onUpdateMsg(UpdateMsg m, OmmConsumerEvent event) {
        began(event);
        updateCount++;
        updatesWhileSuspectCount += states.isSuspect() ? 1 : 0;
        image.merge(m.payload().dataType(), m.payload().data());
        sequence.onUpdate(m.hasSeqNum() ? m.seqNum() : -1);
        if (showUpdates) {
            Json.line("update", "item", name, "domain", domain, "number", updateCount,
                    "name", m.hasName() ? m.name() : null, "type", m.updateTypeNum(),
                    "seq", m.hasSeqNum() ? m.seqNum() : null,
                    "permission_data", m.hasPermissionData() ? Value.hexText(m.permissionData()) : null,
                    "conflated", m.hasConflated() ? m.conflatedCount() : null);
        }
        onMessage.accept(this);
        afterUpdate.run();
    }

    @Override
    public void onStatusMsg(StatusMsg m, OmmConsumerEvent event) {
        began(event);
        statusCount++;
        if (m.clearCache()) {
            image.clear();
        }
        if (m.hasState()) {
            states.add(m.state());
        }
        // After an interruption the rest of the parts does not come; the next refresh begins anew.
        imageIsOpenEnded &= states.isGood();
        Json.line("status", "item", name, "domain", domain, "has_state", m.hasState(), "state", states.last(),
                "group", m.hasItemGroup() ? Value.hexText(m.itemGroup()) : null,
                "updates_before", updateCount);
        onMessage.accept(this);
    }

    @Override
    public void onGenericMsg(GenericMsg m, OmmConsumerEvent event) {
        genericCount++;
        genericsOutOfOrderCount += m.hasSeqNum() && m.seqNum() != lastGeneric + 1 ? 1 : 0;
        lastGeneric = m.hasSeqNum() ? m.seqNum() : lastGeneric + 1;
        boolean hasElements = m.payload().dataType() == DataTypes.ELEMENT_LIST;
        Json.line("generic", "item", name, "domain", domain, "message_domain", m.domainType(),
                "name", m.hasName() ? m.name() : null, "seq", m.hasSeqNum() ? m.seqNum() : null,
                "payload", hasElements ? Elements.json(m.payload().elementList()) : null);
        onMessage.accept(this);
    }

    @Override
    public void onAckMsg(AckMsg m, OmmConsumerEvent event) {
        posts.onAck(m, key());
    }

    private void began(OmmConsumerEvent event) {
        lastMessageNs = System.nanoTime();
        handle = event.handle();
    }

    /** What an application does with each update, in the library's callback. */
    void afterUpdate(Runnable work) {
        afterUpdate = work;
    }

    /** The library's handle of the stream, known when a message has come. */
    long handle() {
        return handle;
    }

    /** A view that was asked for: fields of it may come, and of the one before until its refresh is there. */
    void changeView(View view) {
        image.setViews(image.view(), view);
        nextView = view;
    }

    long lastMessageNs() {
        return lastMessageNs;
    }

    /** Complete refreshes in answer to requests. */
    long solicitedImageCount() {
        return solicitedImageCount;
    }

    long messageCount() {
        return refreshCount + updateCount;
    }

    long genericCount() {
        return genericCount;
    }

    long genericsOutOfOrderCount() {
        return genericsOutOfOrderCount;
    }

    boolean hasImage() {
        return imageCount > 0;
    }

    long updateCount() {
        return updateCount;
    }

    long refreshCount() {
        return refreshCount;
    }

    long statusCount() {
        return statusCount;
    }

    /** DOMAIN:NAME, as on the command line. */
    String key() {
        return domain + ":" + name;
    }

    void printFinal() {
        Map<String, Object> line = Json.object("item", name, "domain", domain, "state", states.last());
        image.putInto(line);
        Json.line("final", line);
    }

    /** What the result line says about the item. */
    Map<String, Object> summary() {
        return Json.object("item", name, "domain", domain, "refreshes", refreshCount, "images", imageCount,
                "updates", updateCount, "statuses", statusCount,
                "generics", genericCount, "updates_while_suspect", updatesWhileSuspectCount,
                "states", states.kept(),
                "states_forgotten", states.forgottenCount(), "state_changes", states.changeCount(),
                "sequence", sequence.counts(), "image", image.counts());
    }
}
