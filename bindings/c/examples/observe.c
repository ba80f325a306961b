/* Takes down messages at two points of a program and writes both files: observe SENDER.obs RECEIVER.obs */
#include <inttypes.h>
#include <stdio.h>

#include "tickcast.h"

static int fail(void) {
    fprintf(stderr, "%s\n", tickcast_last_error());
    return 1;
}

int main(int argc, char **argv) {
    tickcast_recorder *sender, *receiver;
    tickcast_recorded recorded;
    if (argc != 3) return fprintf(stderr, "observe SENDER.obs RECEIVER.obs\n"), 2;
    /* Memory for a million messages each. A recorder belongs to one thread: a program with two has one in each. */
    if (tickcast_recorder_create("sender", NULL, 1000000, TICKCAST_CLOCK_DEFAULT, &sender)) return fail();
    if (tickcast_recorder_create("receiver", NULL, 1000000, TICKCAST_CLOCK_DEFAULT, &receiver)) return fail();
    for (uint64_t number = 0; number < 100000; number++) {
        tickcast_recorder_record(sender, TICKCAST_ID(1, number));
        /* Here the message would travel. */
        if (number % 1000 != 999) tickcast_recorder_record(receiver, TICKCAST_ID(1, number));
    }
    /* After the run: it takes time. */
    if (tickcast_recorder_write(sender, argv[1])) return fail();
    if (tickcast_recorder_write(receiver, argv[2])) return fail();
    if (tickcast_recorder_look(receiver, &recorded)) return fail();
    printf("%" PRIu64 " of %" PRIu64 " messages, %" PRIu64 " without room\n", recorded.records, recorded.capacity,
           recorded.lost);
    tickcast_recorder_destroy(sender);
    tickcast_recorder_destroy(receiver);
    return 0;
}
