package tickcast.interop;

import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.OmmConsumer;
import com.refinitiv.ema.access.PostMsg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.ToLongFunction;

/** The steps of a consumer, one after the other: reissue, pause, posts, generic messages. */
final class Steps {
    /** Of the generic messages; any domain may carry them. */
    private static final int GENERIC_DOMAIN = 200;

    private final ConsumerOptions options;
    private final List<WatchedItem> items;
    private final PostLog posts;
    private final List<Step> steps = new ArrayList<>();
    private OmmConsumer consumer;
    private long loginHandle;
    private int doneCount;
    private boolean hasBegun;

    Steps(ConsumerOptions options, List<WatchedItem> items, PostLog posts) {
        this.options = options;
        this.items = items;
        this.posts = posts;
        StepOptions s = options.steps;
        if (s.reissue) {
            steps.add(new Reissue());
        }
        if (s.pauseMs > 0) {
            steps.add(new Pause(s.pauseMs, false));
        }
        if (s.pauseAllMs > 0) {
            steps.add(new Pause(s.pauseAllMs, true));
        }
        if (s.postCount > 0) {
            steps.add(new Posts(s.postCount, true));
        }
        if (s.postOffStreamCount > 0) {
            steps.add(new Posts(s.postOffStreamCount, false));
        }
        if (s.genericCount > 0) {
            steps.add(new Generics());
        }
    }

    void use(OmmConsumer consumer, long loginHandle) {
        this.consumer = consumer;
        this.loginHandle = loginHandle;
    }

    /** Goes on as far as possible; what has still to come, null if all is done. */
    String awaited() {
        while (doneCount < steps.size()) {
            Step step = steps.get(doneCount);
            if (!hasBegun) {
                step.begin();
                hasBegun = true;
            }
            String awaited = step.awaited();
            if (awaited != null) {
                return awaited;
            }
            doneCount++;
            hasBegun = false;
        }
        return null;
    }

    private ReqMsg request(WatchedItem item) {
        return options.service(EmaFactory.createReqMsg().domainType(item.domain).name(item.name));
    }

    /** A count of each item that must have grown by so much. */
    private final class Growth {
        private final Map<WatchedItem, Long> wanted = new LinkedHashMap<>();
        private final ToLongFunction<WatchedItem> count;
        private final String what;

        Growth(String what, long by, ToLongFunction<WatchedItem> count) {
            this.what = what;
            this.count = count;
            items.forEach(item -> wanted.put(item, count.applyAsLong(item) + by));
        }

        String awaited() {
            for (Map.Entry<WatchedItem, Long> entry : wanted.entrySet()) {
                long missing = entry.getValue() - count.applyAsLong(entry.getKey());
                if (missing > 0) {
                    return entry.getKey().key() + ": " + missing + " " + what;
                }
            }
            return null;
        }
    }

    private final class Reissue implements Step {
        private Growth images;

        @Override
        public void begin() {
            images = new Growth("images in answer to the reissue", 1, WatchedItem::solicitedImageCount);
            for (WatchedItem item : items) {
                ReqMsg m = request(item).initialImage(true);
                if (options.steps.reissuePriority != null) {
                    m.priority(options.steps.reissuePriority[0], options.steps.reissuePriority[1]);
                }
                if (options.steps.reissueView != null) {
                    ElementList payload = EmaFactory.createElementList();
                    options.steps.reissueView.addTo(payload);
                    m.payload(payload);
                    item.changeView(options.steps.reissueView);
                }
                consumer.reissue(m, item.handle());
            }
        }

        @Override
        public String awaited() {
            return images.awaited();
        }
    }

    /** Paused is who gets nothing for a while; the timeout ends a run where that does not happen. */
    private final class Pause implements Step {
        private final long silenceMs;
        private final boolean ofAll;
        private long begunNs;
        private Growth resumed;

        Pause(long silenceMs, boolean ofAll) {
            this.silenceMs = silenceMs;
            this.ofAll = ofAll;
        }

        @Override
        public void begin() {
            begunNs = System.nanoTime();
            send(true);
            Json.line("paused");
        }

        @Override
        public String awaited() {
            if (resumed != null) {
                return resumed.awaited();
            }
            long lastNs = begunNs;
            for (WatchedItem item : items) {
                lastNs = Math.max(lastNs, item.lastMessageNs());
            }
            if (System.nanoTime() - lastNs < TimeUnit.MILLISECONDS.toNanos(silenceMs)) {
                return "silence of " + silenceMs + " ms after the pause";
            }
            resumed = ofAll ? new Growth("messages after the pause", 1, WatchedItem::messageCount)
                    : new Growth("images after the pause", 1, WatchedItem::solicitedImageCount);
            send(false);
            Json.line("resumed");
            return resumed.awaited();
        }

        private void send(boolean pause) {
            if (ofAll) {
                consumer.reissue(EmaFactory.createReqMsg().domainType(EmaRdm.MMT_LOGIN).name(options.user)
                        .initialImage(false).pause(pause), loginHandle);
                return;
            }
            for (WatchedItem item : items) {
                consumer.reissue(request(item).initialImage(!pause).pause(pause), item.handle());
            }
        }
    }

    private final class Posts implements Step {
        private final int count;
        private final boolean onStream;

        Posts(int count, boolean onStream) {
            this.count = count;
            this.onStream = onStream;
        }

        @Override
        public void begin() {
            for (int i = 0; i < count; i++) {
                for (WatchedItem item : items) {
                    consumer.submit(post(item), onStream ? item.handle() : loginHandle);
                }
            }
        }

        private PostMsg post(WatchedItem item) {
            long id = posts.next();
            UpdateMsg inner = EmaFactory.createUpdateMsg().domainType(item.domain).name(item.name);
            PostMsg m = EmaFactory.createPostMsg().domainType(item.domain).name(item.name).postId(id)
                    .seqNum(id).solicitAck(true).complete(true);
            if (options.service == null) {
                inner.serviceId(options.serviceId);
                m.serviceId(options.serviceId);
            } else {
                inner.serviceName(options.service);
                m.serviceName(options.service);
            }
            try {
                return m.payload(inner.payload(PayloadScript.parse(options.steps.postFields)));
            } catch (UsageError e) {
                throw new IllegalStateException("parsed before", e);
            }
        }

        @Override
        public String awaited() {
            return posts.isAnswered() ? null : "answers to posts: " + posts.counts();
        }
    }

    private final class Generics implements Step {
        private Growth answers;

        @Override
        public void begin() {
            answers = new Growth("generic messages in answer", options.steps.genericCount,
                    WatchedItem::genericCount);
            for (WatchedItem item : items) {
                for (int i = 1; i <= options.steps.genericCount; i++) {
                    ElementList payload = EmaFactory.createElementList();
                    payload.add(EmaFactory.createElementEntry().uintValue("N", i));
                    consumer.submit(EmaFactory.createGenericMsg().domainType(GENERIC_DOMAIN).name("question")
                            .seqNum(i).complete(true).payload(payload), item.handle());
                }
            }
        }

        @Override
        public String awaited() {
            return answers.awaited();
        }
    }
}
