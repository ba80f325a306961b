/*
 * Publishes to itself, and forks: children that end normally, destroy what they have, or go on with contexts of their
 * own. fork TRANSPORT [KEY=VALUE]...
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tickcast.h"

static int received, lost, ended, in_a_row;

static void on_message(void *user, const tickcast_message *message) {
    (void)user;
    int number;
    if (message->length != sizeof number) return;
    number = *(const int *)message->data;
    in_a_row = number == received ? in_a_row : 0;
    received = number + 1;
}

static void on_loss(void *user, tickcast_receiver receiver, tickcast_stream stream, uint32_t first, uint32_t count,
                    int is_burst) {
    (void)user, (void)receiver, (void)stream, (void)first, (void)is_burst;
    lost += (int)count;
}

static void on_end(void *user, tickcast_receiver receiver, tickcast_stream stream, int reason) {
    (void)user, (void)receiver, (void)stream, (void)reason;
    ended++;
}

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, tickcast_last_error());
    _exit(1);
}

static const char *transport, *const *settings;
static size_t setting_count;
static tickcast_context *publisher, *subscriber;
static tickcast_source source;
static tickcast_receiver receiver;

static void begin(const char *topic) {
    tickcast_handlers handlers = {.size = sizeof handlers, .on_message = on_message, .on_loss = on_loss,
                                  .on_end = on_end};
    if (tickcast_context_create(NULL, settings, setting_count, &publisher)) fail("publisher");
    if (tickcast_context_create(NULL, settings, setting_count, &subscriber)) fail("subscriber");
    if (tickcast_context_set_handlers(subscriber, &handlers, NULL)) fail("handlers");
    if (tickcast_source_create(publisher, topic, transport, &source)) fail("source");
    if (tickcast_receiver_create(subscriber, topic, 0, &receiver)) fail("receiver");
}

/* Sends numbers from `from` on until `count` of them, at least, have come in a row. */
static void exchange(int from, int count) {
    int number = from, until = from + count;
    received = from, in_a_row = 1, lost = 0;
    while (received < until) {
        int sent = number < until ? tickcast_source_send(publisher, source, &number, sizeof number, 0, NULL)
                                  : TICKCAST_ERROR_WOULD_BLOCK;
        if (!sent) number++;
        if (sent && sent != TICKCAST_ERROR_WOULD_BLOCK) fail("send");
        if (tickcast_context_wait(publisher, 1000 * 1000) < 0) fail("wait");
        if (tickcast_context_wait(subscriber, 1000 * 1000) < 0) fail("wait");
        /* Until they have met, what is sent first is not heard. */
        if (from == 0 && !in_a_row) until = number + count, in_a_row = 1;
    }
    if (lost || ended || (from && !in_a_row)) {
        fprintf(stderr, "from %d: %d lost, %d ended, in a row: %d\n", from, lost, ended, in_a_row);
        _exit(1);
    }
}

static void refused(int code, const char *what) {
    if (code == TICKCAST_ERROR_FORKED) return;
    fprintf(stderr, "%s in a child: %d\n", what, code);
    _exit(1);
}

/* What ends a child that goes on with what its parent has made. */
static void misuse(void) {
    tickcast_source other;
    void *room;
    refused(tickcast_source_send(publisher, source, "", 0, TICKCAST_FLUSH, NULL), "send");
    refused(tickcast_source_claim(publisher, source, 8, &room), "claim");
    refused(tickcast_source_create(publisher, "c.other", transport, &other), "source");
    refused(tickcast_context_poll(subscriber), "poll");
    refused(tickcast_context_flush(publisher), "flush");
    refused((int)tickcast_context_until_wakeup_ns(subscriber), "until_wakeup_ns");
}

int main(int argc, char **argv) {
    enum { EXITS, DESTROYS, OWN, KINDS };
    if (argc < 2) return 2;
    transport = argv[1], settings = (const char *const *)argv + 2, setting_count = (size_t)argc - 2;
    begin("c.fork");
    exchange(0, 100);
    for (int kind = EXITS; kind < KINDS; kind++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            misuse();
            if (kind != EXITS) {
                tickcast_context_destroy(publisher);
                tickcast_context_destroy(subscriber);
            }
            if (kind == OWN) {
                begin("c.child");
                exchange(0, 100);
                tickcast_context_destroy(subscriber);
                tickcast_context_destroy(publisher);
            }
            exit(0); /* not _exit: what the library does at the end of a process is done */
        }
        exchange(received, 100);
        if (waitpid(child, &status, 0) != child || status) return fprintf(stderr, "child %d\n", kind), 1;
        exchange(received, 100);
    }
    /* A context with a thread of the library, which is not there in the child. */
    tickcast_thread *thread;
    tickcast_sender *sender;
    tickcast_receiver there;
    if (tickcast_thread_start(NULL, settings, setting_count, NULL, NULL, &thread)) fail("thread");
    if (tickcast_sender_create(thread, "c.thread", transport, &sender)) fail("sender");
    int status;
    pid_t child = fork();
    if (child == 0) {
        refused(tickcast_sender_send(sender, "", 0, TICKCAST_FLUSH), "sender");
        refused(tickcast_thread_receive(thread, "c.thread", 0, &there), "receive");
        tickcast_sender_destroy(sender);
        refused(tickcast_thread_stop(thread), "stop");
        exit(0);
    }
    if (waitpid(child, &status, 0) != child || status) return fprintf(stderr, "child of a thread\n"), 1;
    if (tickcast_sender_send(sender, "", 0, TICKCAST_FLUSH)) fail("sender");
    if (tickcast_thread_receive(thread, "c.thread", 0, &there)) fail("receive");
    tickcast_sender_destroy(sender);
    if (tickcast_thread_stop(thread)) fail("stop");
    tickcast_context_destroy(publisher);
    tickcast_context_destroy(subscriber);
    puts("parent and children are well");
    return 0;
}
