package tickcast.interop;

import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.ElementEntry;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.OmmProvider;
import com.refinitiv.ema.access.OmmProviderEvent;
import com.refinitiv.ema.access.OmmState.DataState;
import com.refinitiv.ema.access.OmmState.StatusCode;
import com.refinitiv.ema.access.OmmState.StreamState;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.Map;

/** How the interactive provider answers logins: features announced, or refused. */
final class LoginAnswers {
    private static final String ROUND_TRIPS = "RoundTripLatency";

    private final IProviderOptions options;

    LoginAnswers(IProviderOptions options) {
        this.options = options;
    }

    void answer(ReqMsg m, OmmProviderEvent event, OmmProvider provider) {
        boolean hasAttributes = m.attrib().dataType() == DataTypes.ELEMENT_LIST;
        Map<String, Object> attributes = hasAttributes ? Elements.json(m.attrib().elementList()) : Map.of();
        Json.line("login", "user", m.name(), "attributes", attributes, "client", event.clientHandle());
        if (options.loginReject != null) {
            provider.submit(EmaFactory.createStatusMsg().domainType(EmaRdm.MMT_LOGIN).name(m.name())
                    .nameType(EmaRdm.USER_NAME).state(StreamState.CLOSED, DataState.SUSPECT,
                            StatusCode.NOT_AUTHORIZED, options.loginReject), event.handle());
            return;
        }
        provider.submit(EmaFactory.createRefreshMsg().domainType(EmaRdm.MMT_LOGIN).name(m.name())
                .nameType(EmaRdm.USER_NAME).state(StreamState.OPEN, DataState.OK, StatusCode.NONE, "welcome")
                .solicited(true).complete(true).attrib(features(m, hasAttributes)), event.handle());
        if (options.measuresRoundTrips && attributes.containsKey(ROUND_TRIPS)) {
            ElementList ticks = EmaFactory.createElementList();
            number(ticks, "Ticks", System.nanoTime());
            provider.submit(EmaFactory.createGenericMsg().domainType(EmaRdm.MMT_LOGIN).providerDriven(true)
                    .complete(true).payload(ticks), event.handle());
        }
    }

    private ElementList features(ReqMsg m, boolean hasAttributes) {
        ElementList list = EmaFactory.createElementList();
        if (hasAttributes) {
            for (ElementEntry element : m.attrib().elementList()) {
                if (element.name().equals("ApplicationId") || element.name().equals("Position")) {
                    list.add(EmaFactory.createElementEntry().ascii(element.name(), element.ascii().ascii()));
                }
            }
        }
        number(list, "SingleOpen", 1);
        number(list, "AllowSuspectData", 1);
        number(list, "SupportBatchRequests", options.without.contains("batch") ? 0 : 7);
        number(list, "SupportViewRequests", options.without.contains("view") ? 0 : 1);
        number(list, "SupportOMMPost", options.without.contains("post") ? 0 : 1);
        number(list, "SupportOptimizedPauseResume", options.without.contains("pause") ? 0 : 1);
        if (options.measuresRoundTrips) {
            number(list, ROUND_TRIPS, 2);
        }
        return list;
    }

    private static void number(ElementList list, String name, long value) {
        list.add(EmaFactory.createElementEntry().uintValue(name, value));
    }
}
