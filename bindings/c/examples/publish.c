/* Publishes ten messages a second: publish TOPIC COUNT [KEY=VALUE]... */
#include <stdio.h>
#include <stdlib.h>

#include "tickcast.h"

static int fail(void) {
    fprintf(stderr, "%s\n", tickcast_last_error());
    return 1;
}

int main(int argc, char **argv) {
    tickcast_context *context;
    tickcast_source source;
    if (argc < 3) return fprintf(stderr, "publish TOPIC COUNT [KEY=VALUE]...\n"), 2;
    const char *const *settings = (const char *const *)argv + 3;
    if (tickcast_context_create(NULL, settings, (size_t)argc - 3, &context)) return fail();
    if (tickcast_source_create(context, argv[1], NULL, &source)) return fail();
    /* What is sent before a receiver has found the source does not reach it. */
    int waited = tickcast_source_wait_for_receivers(context, source, 1, 5LL * 1000 * 1000 * 1000, NULL);
    if (waited < 0) return fail();
    if (waited > 0) fprintf(stderr, "nobody receives %s yet\n", argv[1]);
    for (int number = 0; number < atoi(argv[2]); number++) {
        char text[32];
        int length = snprintf(text, sizeof text, "message %d", number);
        if (tickcast_source_send(context, source, text, (size_t)length, TICKCAST_FLUSH, NULL)) return fail();
        for (int turn = 0; turn < 10; turn++) /* a tenth of a second, or a little less */
            if (tickcast_context_wait(context, 10 * 1000 * 1000) < 0) return fail();
    }
    tickcast_context_destroy(context);
    return 0;
}
