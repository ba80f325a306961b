package tickcast.interop;

import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmConsumerClient;
import com.refinitiv.ema.access.OmmConsumerEvent;
import com.refinitiv.ema.access.UpdateMsg;

/** A stream's callbacks; what a stream has no use for does nothing. */
abstract class Watch implements OmmConsumerClient {
    @Override
    public void onUpdateMsg(UpdateMsg m, OmmConsumerEvent event) {
        // not every domain has updates
    }

    @Override
    public void onGenericMsg(GenericMsg m, OmmConsumerEvent event) {
        // none is asked for; round trip measurements the library answers itself
    }

    @Override
    public void onAckMsg(AckMsg m, OmmConsumerEvent event) {
        // nothing is posted
    }

    @Override
    public void onAllMsg(Msg m, OmmConsumerEvent event) {
        // each class has its own method
    }
}
