/* Prints the messages of a topic until a source has ended: subscribe TOPIC [KEY=VALUE]... */
#include <stdio.h>

#include "tickcast.h"

static void on_message(void *context, const tickcast_message *message) {
    (void)context;
    printf("%u %.*s\n", message->sqn, (int)message->length, (const char *)message->data);
}

static void on_loss(void *context, tickcast_receiver receiver, tickcast_stream stream, uint32_t first,
                    uint32_t count, int is_burst) {
    (void)context, (void)receiver, (void)stream, (void)is_burst;
    printf("%u messages are lost, from %u\n", count, first);
}

static void on_end(void *context, tickcast_receiver receiver, tickcast_stream stream, int reason) {
    (void)receiver, (void)stream, (void)reason;
    tickcast_context_stop(context);
}

int main(int argc, char **argv) {
    const tickcast_handlers handlers = {
        .size = sizeof handlers, .on_message = on_message, .on_loss = on_loss, .on_end = on_end};
    tickcast_context *context;
    tickcast_receiver receiver;
    if (argc < 2) return fprintf(stderr, "subscribe TOPIC [KEY=VALUE]...\n"), 2;
    if (tickcast_context_create(NULL, (const char *const *)argv + 2, (size_t)argc - 2, &context) ||
        tickcast_context_set_handlers(context, &handlers, context) ||
        tickcast_receiver_create(context, argv[1], 0, &receiver) || tickcast_context_run(context))
        return fprintf(stderr, "%s\n", tickcast_last_error()), 1;
    tickcast_context_destroy(context);
    return 0;
}
