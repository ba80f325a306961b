package tickcast.interop;

import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.OmmConsumerEvent;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.StatusMsg;
import java.util.List;
import java.util.Map;

/** The login stream: what the server granted, and how often the login went up and down. */
final class LoginWatch extends Watch {
    private final StateLog states = new StateLog(List.of());
    private final PostLog posts;
    private long refreshCount;
    private long statusCount;
    private boolean accepted;

    /** @param posts takes the answers to posts that belong to no item's stream */
    LoginWatch(PostLog posts) {
        this.posts = posts;
    }

    @Override
    public void onRefreshMsg(RefreshMsg m, OmmConsumerEvent event) {
        refreshCount++;
        states.add(m.state());
        accepted |= states.isGood();
        boolean hasAttributes = m.attrib().dataType() == DataTypes.ELEMENT_LIST;
        Json.line("login", "state", states.last(), "user", m.hasName() ? m.name() : null,
                "attributes", hasAttributes ? Elements.json(m.attrib().elementList()) : null);
    }

    @Override
    public void onStatusMsg(StatusMsg m, OmmConsumerEvent event) {
        statusCount++;
        if (m.hasState()) {
            states.add(m.state());
        }
        Json.line("login_status", "has_state", m.hasState(), "state", states.last());
    }

    @Override
    public void onAckMsg(AckMsg m, OmmConsumerEvent event) {
        posts.onAck(m, "login");
    }

    /** Whether the server let us in, be it no longer. */
    boolean wasAccepted() {
        return accepted;
    }

    @Override
    public String toString() {
        return states.toString();
    }

    Map<String, Object> summary() {
        return Json.object("state", states.last(), "refreshes", refreshCount, "statuses", statusCount,
                "state_changes", states.changeCount(), "states", states.kept());
    }
}
