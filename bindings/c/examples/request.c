/* Asks, again until somebody answers, and prints the answer: request TOPIC TEXT [KEY=VALUE]... */
#include <stdio.h>
#include <string.h>

#include "tickcast.h"

static void on_response(void *answers, tickcast_request request, const void *data, size_t length) {
    (void)request;
    printf("%.*s\n", (int)length, (const char *)data);
    ++*(int *)answers;
}

int main(int argc, char **argv) {
    const tickcast_handlers handlers = {.size = sizeof handlers, .on_response = on_response};
    tickcast_context *context;
    tickcast_source source;
    int answers = 0;
    if (argc < 3) return fprintf(stderr, "request TOPIC TEXT [KEY=VALUE]...\n"), 2;
    int error = tickcast_context_create(NULL, (const char *const *)argv + 3, (size_t)argc - 3, &context) ||
                tickcast_context_set_handlers(context, &handlers, &answers) ||
                tickcast_source_create(context, argv[1], NULL, &source);
    while (!error && answers == 0) {
        tickcast_request request;
        error = tickcast_request_send(context, source, argv[2], strlen(argv[2]), &request);
        for (int turn = 0; !error && answers == 0 && turn < 10; turn++)
            error = tickcast_context_wait(context, 50 * 1000 * 1000) < 0;
        error = error || tickcast_request_cancel(context, request);
    }
    if (error) return fprintf(stderr, "%s\n", tickcast_last_error()), 1;
    tickcast_context_destroy(context);
    return 0;
}
