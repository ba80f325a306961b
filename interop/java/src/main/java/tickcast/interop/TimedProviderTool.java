package tickcast.interop;

import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FieldEntry;
import com.refinitiv.ema.access.FieldList;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmException;
import com.refinitiv.ema.access.OmmProvider;
import com.refinitiv.ema.access.OmmProviderClient;
import com.refinitiv.ema.access.OmmProviderEvent;
import com.refinitiv.ema.access.OmmReal;
import com.refinitiv.ema.access.OmmState.DataState;
import com.refinitiv.ema.access.OmmState.StatusCode;
import com.refinitiv.ema.access.OmmState.StreamState;
import com.refinitiv.ema.access.PostMsg;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;

/**
 * An interactive provider whose updates carry the time of their encoding in TIM_TRK_1 (microseconds), that sends posts
 * back as updates and generic messages as they came. Its options are those of {@link IProviderOptions}.
 */
final class TimedProviderTool implements OmmProviderClient {
    private static final long DISPATCH_US = 1_000;
    private static final int BID = 22;
    private static final int ASK = 25;
    private static final int[] STAMPS = {3902, 3903, 3904};

    private final IProviderOptions options;
    private final LoginAnswers logins;
    private final Commands commands = new Commands(false);
    private final Map<Long, Item> streams = new LinkedHashMap<>();
    private final Map<String, Long> counts = new TreeMap<>();
    private final Pace pace;
    private OmmProvider provider;

    /** An open stream. */
    private static final class Item {
        final String name;
        long updates;

        Item(String name) {
            this.name = name;
        }
    }

    TimedProviderTool(IProviderOptions options) {
        this.options = options;
        logins = new LoginAnswers(options);
        pace = new Pace(options.rate);
    }

    /** The exit status. */
    int run() throws UsageError {
        try {
            provider = EmaFactory.createOmmProvider(
                    EmaSettings.interactiveConfig(options.transport, options.service), this);
            Json.line("ready", "port", options.transport.port, "service", options.service.name);
            boolean running = true;
            while (running) {
                provider.dispatch(DISPATCH_US);
                for (long due = pace.due(); due > 0; due--) {
                    streams.forEach(this::update);
                }
                running = !Commands.END.equals(commands.poll());
            }
            provider.uninitialize();
            Json.lastLine("result", "status", "OK", "counts", counts);
            return 0;
        } catch (OmmException e) {
            Json.lastLine("result", "status", "FAIL", "reason", e.getMessage(), "counts", counts);
            return 1;
        }
    }

    private void count(String what) {
        counts.merge(what, 1L, Long::sum);
    }

    private void update(Long handle, Item item) {
        if (options.updateCountMax >= 0 && item.updates >= options.updateCountMax) {
            return;
        }
        long startUs = System.nanoTime() / 1_000;
        item.updates++;
        FieldList fields = quote(item.updates);
        fields.add(EmaFactory.createFieldEntry().uintValue(STAMPS[0], startUs));
        provider.submit(EmaFactory.createUpdateMsg().domainType(EmaRdm.MMT_MARKET_PRICE).name(item.name)
                .serviceName(options.service.name).payload(fields), handle);
        count("updates");
    }

    private static FieldList quote(long number) {
        FieldList fields = EmaFactory.createFieldList();
        fields.add(EmaFactory.createFieldEntry().real(BID, 4_000 + number, OmmReal.MagnitudeType.EXPONENT_NEG_2));
        fields.add(EmaFactory.createFieldEntry().real(ASK, 4_004 + number, OmmReal.MagnitudeType.EXPONENT_NEG_2));
        return fields;
    }

    @Override
    public void onReqMsg(ReqMsg m, OmmProviderEvent event) {
        if (m.domainType() == EmaRdm.MMT_LOGIN) {
            count("logins");
            logins.answer(m, event, provider);
            return;
        }
        count("requests");
        FieldList image = quote(0);
        for (int id : STAMPS) {
            image.add(EmaFactory.createFieldEntry().codeUInt(id));
        }
        provider.submit(EmaFactory.createRefreshMsg().domainType(m.domainType()).name(m.name())
                .serviceName(options.service.name).solicited(true).complete(true)
                .state(StreamState.OPEN, DataState.OK, StatusCode.NONE, "").payload(image), event.handle());
        count("images");
        if (m.interestAfterRefresh()) {
            streams.put(event.handle(), new Item(m.name()));
        }
    }

    @Override
    public void onPostMsg(PostMsg m, OmmProviderEvent event) {
        count("posts");
        Item item = streams.get(event.handle());
        FieldList fields = PostAnswer.fields(m);
        if (item != null && fields != null) {
            UpdateMsg update = EmaFactory.createUpdateMsg().domainType(m.domainType()).name(item.name)
                    .serviceName(options.service.name)
                    .publisherId(m.publisherIdUserId(), m.publisherIdUserAddress()).payload(copy(fields));
            provider.submit(update, event.handle());
            count("posts_reflected");
        }
        if (m.solicitAck()) {
            provider.submit(EmaFactory.createAckMsg().domainType(m.domainType()).ackId(m.postId()),
                    event.handle());
        }
    }

    /** Bid, ask and time stamps of a list: what came is read only. */
    private static FieldList copy(FieldList fields) {
        FieldList copy = EmaFactory.createFieldList();
        for (FieldEntry field : fields) {
            if (field.loadType() == DataTypes.UINT) {
                copy.add(EmaFactory.createFieldEntry().uintValue(field.fieldId(), field.uintValue()));
            } else if (field.fieldId() == BID || field.fieldId() == ASK) {
                copy.add(EmaFactory.createFieldEntry().real(field.fieldId(), field.real().mantissa(),
                        field.real().magnitudeType()));
            }
        }
        return copy;
    }

    @Override
    public void onGenericMsg(GenericMsg m, OmmProviderEvent event) {
        count("generics");
        if (m.payload().dataType() == DataTypes.FIELD_LIST && streams.containsKey(event.handle())) {
            provider.submit(EmaFactory.createGenericMsg().domainType(m.domainType()).complete(true)
                    .payload(copy(m.payload().fieldList())), event.handle());
            count("generics_answered");
        }
    }

    @Override
    public void onReissue(ReqMsg m, OmmProviderEvent event) {
        count("reissues");
    }

    @Override
    public void onClose(ReqMsg m, OmmProviderEvent event) {
        count("closes");
        if (m.domainType() == EmaRdm.MMT_LOGIN) {
            streams.clear();
        } else {
            streams.remove(event.handle());
        }
    }

    @Override
    public void onRefreshMsg(RefreshMsg m, OmmProviderEvent event) {
        // consumers send none
    }

    @Override
    public void onStatusMsg(StatusMsg m, OmmProviderEvent event) {
        // consumers send none
    }

    @Override
    public void onAllMsg(Msg m, OmmProviderEvent event) {
        // each class has its own method
    }
}
