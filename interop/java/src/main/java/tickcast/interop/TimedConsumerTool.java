package tickcast.interop;

import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FieldEntry;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmConsumer;
import com.refinitiv.ema.access.OmmConsumerClient;
import com.refinitiv.ema.access.OmmConsumerConfig.OperationModel;
import com.refinitiv.ema.access.OmmConsumerEvent;
import com.refinitiv.ema.access.OmmException;
import com.refinitiv.ema.access.OmmState.StreamState;
import com.refinitiv.ema.access.Payload;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Counts what comes for many items, decodes every field, and reads how old the time stamps TIM_TRK_1 are. */
final class TimedConsumerTool implements OmmConsumerClient {
    private static final int TIM_TRK_1 = 3902;
    private static final long DISPATCH_US = 10_000;
    private static final int AGES_MAX = 1_000_000;

    private final ConsumerOptions options;
    private final String service;
    private final String prefix;
    private final long itemCount;
    private final long updateCountMin;
    /** The updates that are waited for come after the last image. */
    private final boolean isAfterImages;
    private final long stampCountMax;
    private final long timeoutS;
    private final long unitNs;
    private long images;
    private long updates;
    private long fields;
    private long errors;
    private long closed;
    private long sumNs;
    /** Of the first ones, for the median. */
    private final long[] agesNs = new long[AGES_MAX];
    private long minNs = Long.MAX_VALUE;
    private long maxNs;
    private long stampCount;
    private long ofTheFuture;
    private long stampsBeforeImages;
    private long updatesBeforeImages;
    private final List<Object> stamps = new ArrayList<>();

    TimedConsumerTool(Arguments a) throws UsageError {
        service = a.text("service", "DIRECT_FEED");
        prefix = a.text("prefix", "TEST.");
        itemCount = a.number("count", 1, 1, 1_000_000);
        updateCountMin = a.number("updates", 0, 0, Long.MAX_VALUE);
        isAfterImages = a.has("after-images");
        stampCountMax = a.number("show-stamps", 0, 0, 1_000_000);
        timeoutS = a.number("timeout", 60, 1, 1_000_000);
        unitNs = a.has("nanoseconds") ? 1 : 1_000;
        // What a consumer of one item of the service is configured with.
        options = ConsumerOptions.parse(new String[] {"--host", a.text("host", "localhost:14002"), "--service",
            service, "--items", prefix, "--timeout", Long.toString(timeoutS)});
    }

    static Map<String, Arguments.Kind> options() {
        Map<String, Arguments.Kind> options = new LinkedHashMap<>();
        for (String name : List.of("host", "service", "prefix", "count", "updates", "show-stamps", "timeout")) {
            options.put(name, Arguments.Kind.VALUE);
        }
        options.put("nanoseconds", Arguments.Kind.FLAG);
        options.put("after-images", Arguments.Kind.FLAG);
        return options;
    }

    /** The exit status. */
    int run() {
        String reason = null;
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(timeoutS);
        try {
            OmmConsumer consumer = EmaFactory.createOmmConsumer(EmaFactory.createOmmConsumerConfig()
                    .config(EmaSettings.consumer(options)).consumerName(EmaSettings.CONSUMER)
                    .operationModel(OperationModel.USER_DISPATCH).username(options.user));
            for (long i = 0; i < itemCount; i++) {
                consumer.registerClient(EmaFactory.createReqMsg().domainType(EmaRdm.MMT_MARKET_PRICE)
                        .serviceName(service).name(prefix + i), this);
            }
            boolean isToldOf = false;
            while (reason == null && (images < itemCount || updates - (isAfterImages ? updatesBeforeImages : 0) < updateCountMin)) {
                consumer.dispatch(DISPATCH_US);
                if (images >= itemCount && !isToldOf) {
                    isToldOf = true;
                    Json.line("images", "count", images);
                }
                if (System.nanoTime() - deadlineNs >= 0) {
                    reason = "timeout after " + timeoutS + " s";
                } else if (closed > 0) {
                    reason = closed + " streams were closed";
                }
            }
            consumer.uninitialize();
        } catch (OmmException e) {
            reason = "the library gave up: " + e.getMessage();
        }
        if (reason == null && errors > 0) {
            reason = errors + " values could not be decoded";
        }
        Json.lastLine("result", "status", reason == null ? "OK" : "FAIL", "reason", reason, "images", images,
                "updates", updates, "fields", fields, "errors", errors, "latencies", stampCount, "of_the_future",
                ofTheFuture, "mean_ns", stampCount == 0 ? 0 : sumNs / stampCount, "min_ns",
                stampCount == 0 ? 0 : minNs, "max_ns", maxNs, "p50_ns", median(), "stamps_before_images",
                stampsBeforeImages, "stamps", stamps);
        return reason == null ? 0 : 1;
    }

    private long median() {
        int count = (int) Math.min(stampCount, AGES_MAX);
        long[] sorted = Arrays.copyOf(agesNs, count);
        Arrays.sort(sorted);
        return count == 0 ? 0 : sorted[count / 2];
    }

    private void decode(Payload payload) {
        if (payload.dataType() != DataTypes.FIELD_LIST) {
            errors++;
            return;
        }
        for (FieldEntry field : payload.fieldList()) {
            fields++;
            if (field.loadType() == DataTypes.ERROR) {
                errors++;
            } else if (field.fieldId() == TIM_TRK_1 && field.loadType() == DataTypes.UINT
                    && field.code() == com.refinitiv.ema.access.Data.DataCode.NO_CODE) {
                onStamp(field.uintValue());
            }
        }
    }

    private void onStamp(long stamp) {
        long ageNs = (System.nanoTime() / unitNs - stamp) * unitNs;
        if (ageNs < 0) {
            ofTheFuture++;
            return;
        }
        if (stampCount < AGES_MAX) {
            agesNs[(int) stampCount] = ageNs;
        }
        stampCount++;
        sumNs += ageNs;
        minNs = Math.min(minNs, ageNs);
        maxNs = Math.max(maxNs, ageNs);
        if (stamps.size() < stampCountMax) {
            stamps.add(stamp);
        }
    }

    @Override
    public void onRefreshMsg(RefreshMsg m, OmmConsumerEvent event) {
        images += m.complete() ? 1 : 0;
        closed += m.state().streamState() >= StreamState.CLOSED_RECOVER ? 1 : 0;
        stampsBeforeImages = images <= itemCount ? stamps.size() : stampsBeforeImages;
        updatesBeforeImages = images <= itemCount ? updates : updatesBeforeImages;
        decode(m.payload());
    }

    @Override
    public void onUpdateMsg(UpdateMsg m, OmmConsumerEvent event) {
        updates++;
        decode(m.payload());
    }

    @Override
    public void onStatusMsg(StatusMsg m, OmmConsumerEvent event) {
        closed += m.hasState() && m.state().streamState() >= StreamState.CLOSED_RECOVER ? 1 : 0;
    }

    @Override
    public void onGenericMsg(GenericMsg m, OmmConsumerEvent event) {
        // none is sent
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
