/* Answers requests on a topic with their own text until one says "stop": respond TOPIC [KEY=VALUE]... */
#include <stdio.h>
#include <string.h>

#include "tickcast.h"

static void on_message(void *context, const tickcast_message *message) {
    if (!(message->flags & TICKCAST_IS_REQUEST)) return;
    if (tickcast_respond(context, &message->asked, message->data, message->length))
        fprintf(stderr, "%s\n", tickcast_last_error());
    if (message->length == 4 && !memcmp(message->data, "stop", 4)) tickcast_context_stop(context);
}

int main(int argc, char **argv) {
    const tickcast_handlers handlers = {.size = sizeof handlers, .on_message = on_message};
    tickcast_context *context;
    tickcast_receiver receiver;
    if (argc < 2) return fprintf(stderr, "respond TOPIC [KEY=VALUE]...\n"), 2;
    if (tickcast_context_create(NULL, (const char *const *)argv + 2, (size_t)argc - 2, &context) ||
        tickcast_context_set_handlers(context, &handlers, context) ||
        tickcast_receiver_create(context, argv[1], 0, &receiver) || tickcast_context_run(context))
        return fprintf(stderr, "%s\n", tickcast_last_error()), 1;
    for (int turn = 0; turn < 10; turn++) /* the last answer goes out */
        if (tickcast_context_wait(context, 10 * 1000 * 1000) < 0) return 1;
    tickcast_context_destroy(context);
    return 0;
}
