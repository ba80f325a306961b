/* Publishes by TLS to receivers that go while it sends, with SIGPIPE as C programs have it: sigpipe [KEY=VALUE]... */
#include <signal.h>
#include <stdio.h>

#include "tickcast.h"

static int received;

static void on_message(void *user, const tickcast_message *message) {
    (void)user, (void)message;
    received++;
}

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, tickcast_last_error());
    return 1;
}

int main(int argc, char **argv) {
    const char *const *settings = (const char *const *)argv + 1;
    size_t count = (size_t)argc - 1;
    tickcast_handlers handlers = {.size = sizeof handlers, .on_message = on_message};
    tickcast_context *publisher, *subscriber;
    tickcast_source source;
    tickcast_receiver receiver;
    signal(SIGPIPE, SIG_DFL);
    if (tickcast_context_create(NULL, settings, count, &publisher)) return fail("publisher");
    if (tickcast_source_create(publisher, "c.sigpipe", "tcp", &source)) return fail("source");
    for (int round = 0; round < 10; round++) {
        if (tickcast_context_create(NULL, settings, count, &subscriber)) return fail("subscriber");
        if (tickcast_context_set_handlers(subscriber, &handlers, NULL)) return fail("handlers");
        if (tickcast_receiver_create(subscriber, "c.sigpipe", 0, &receiver)) return fail("receiver");
        received = 0;
        while (received == 0) {
            if (tickcast_source_send(publisher, source, "a", 1, TICKCAST_FLUSH, NULL)) return fail("send");
            if (tickcast_context_wait(publisher, 1000 * 1000) < 0) return fail("wait");
            if (tickcast_context_wait(subscriber, 1000 * 1000) < 0) return fail("wait");
        }
        tickcast_context_destroy(subscriber);
        /* The publisher does not look whether anybody is still there. */
        for (int number = 0; number < 1000; number++) {
            int sent = tickcast_source_send(publisher, source, "b", 1, TICKCAST_FLUSH, NULL);
            if (sent && sent != TICKCAST_ERROR_WOULD_BLOCK) return fail("send");
        }
    }
    tickcast_context_destroy(publisher);
    puts("survived");
    return 0;
}
