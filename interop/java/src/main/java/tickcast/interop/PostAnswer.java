package tickcast.interop;

import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FieldList;
import com.refinitiv.ema.access.Payload;
import com.refinitiv.ema.access.PostMsg;

/** How a provider answers posts: `ack`, `silent`, or the code of a refusal. */
final class PostAnswer {
    private final boolean isSilent;
    /** -1: posts are accepted. */
    private final int nackCode;

    PostAnswer(String word) throws UsageError {
        isSilent = word.equals("silent");
        nackCode = isSilent || word.equals("ack") ? -1 : StepOptions.nackCode("posts", word);
    }

    /** null: there is none. */
    AckMsg to(PostMsg m) {
        if (isSilent || !m.solicitAck()) {
            return null;
        }
        AckMsg ack = EmaFactory.createAckMsg().domainType(m.domainType());
        if (m.hasPostId()) {
            ack.ackId(m.postId());
        }
        if (m.hasSeqNum()) {
            ack.seqNum(m.seqNum());
        }
        if (nackCode >= 0) {
            ack.nackCode(nackCode).text("refused by the provider");
        }
        return ack;
    }

    /** The fields posted, in a message or without one; null if there are none. */
    static FieldList fields(PostMsg m) {
        switch (m.payload().dataType()) {
            case DataTypes.UPDATE_MSG:
                return fieldList(m.payload().updateMsg().payload());
            case DataTypes.REFRESH_MSG:
                return fieldList(m.payload().refreshMsg().payload());
            default:
                return fieldList(m.payload());
        }
    }

    private static FieldList fieldList(Payload payload) {
        return payload.dataType() == DataTypes.FIELD_LIST ? payload.fieldList() : null;
    }
}
