/*
 * A node of the random tests of real processes, in C: node DIRECTORY NAME LIFETIME_S [KEY=VALUE]...
 * README.md says what it is told and what it writes.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tickcast.h"

enum { RUNS_MAX = 256, LINE_MAX_BYTES = 512, HEAD = 8, LONGEST = 20000, AT_ONCE = 1000, WHILE_CLOSING = 200 };

struct run {
    unsigned number, next, wanted;
    int is_tried, is_over;
    tickcast_source source;  /* of the context */
    tickcast_sender *sender; /* or of the library's thread */
};

static const char *directory;
static const char *const *settings;
static size_t setting_count;
static time_t until;
static int commands, log_file, is_open;
/* One of them: a context that this thread drives, or one with a thread of the library. */
static tickcast_context *context;
static tickcast_thread *thread;
static struct run runs[RUNS_MAX];
static size_t run_count;
static unsigned char payload[LONGEST];

/* One line is one write to a file that is appended to: what was written stays, however the process ends. */
static void say(const char *format, ...) {
    char line[LINE_MAX_BYTES];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line - 1, format, values);
    va_end(values);
    if (length < 0 || (size_t)length >= sizeof line - 1) _exit(70);
    for (char *at = line; (at = strchr(at, '\n'));) *at = ' ';
    line[length] = '\n';
    if (write(log_file, line, (size_t)length + 1) != length + 1) _exit(71);
}

static void fail(const char *what) {
    say("error %s: %s", what, tickcast_last_error());
    _exit(72);
}

static size_t length_of(unsigned run, unsigned index) {
    unsigned mixed = run * 2654435761u + index * 40503u;
    mixed ^= mixed >> 15;
    unsigned kind = mixed % 200;
    return kind == 0 ? LONGEST : kind < 10 ? 3000 : HEAD + (mixed >> 8) % 200;
}

static void fill(unsigned char *bytes, size_t length, unsigned run, unsigned index) {
    for (int i = 0; i < 4; i++) {
        bytes[i] = (unsigned char)(run >> (24 - 8 * i));
        bytes[4 + i] = (unsigned char)(index >> (24 - 8 * i));
    }
    for (size_t i = HEAD; i < length; i++) bytes[i] = (unsigned char)(i + run * 7u + index * 13u);
}

static unsigned word(const unsigned char *bytes) {
    return (unsigned)bytes[0] << 24 | (unsigned)bytes[1] << 16 | (unsigned)bytes[2] << 8 | bytes[3];
}

static void on_source(void *user, tickcast_receiver receiver, tickcast_stream stream, const char *topic,
                      const char *source) {
    (void)user;
    say("found %llu %u %s %s", (unsigned long long)receiver, stream, topic, source);
}

static void on_begin(void *user, tickcast_receiver receiver, tickcast_stream stream, uint32_t first) {
    (void)user;
    say("begin %llu %u %u", (unsigned long long)receiver, stream, first);
}

static void on_message(void *user, const tickcast_message *message) {
    (void)user;
    static unsigned char expected[LONGEST];
    const unsigned char *bytes = message->data;
    unsigned run = 0, index = 0;
    int is_whole = 0;
    if (message->length >= HEAD && message->length <= LONGEST) {
        run = word(bytes), index = word(bytes + 4);
        fill(expected, message->length, run, index);
        is_whole = memcmp(bytes, expected, message->length) == 0;
    }
    say("message %llu %u %u %u %u %u %zu %d", (unsigned long long)message->receiver, message->stream,
        message->first_sqn, message->sqn, run, index, message->length, is_whole);
}

static void on_loss(void *user, tickcast_receiver receiver, tickcast_stream stream, uint32_t first, uint32_t count,
                    int is_burst) {
    (void)user, (void)is_burst;
    say("loss %llu %u %u %u", (unsigned long long)receiver, stream, first, count);
}

static void on_stream_end(void *user, tickcast_receiver receiver, tickcast_stream stream, const tickcast_end *end) {
    static const char *const reasons[] = {"?", "ended", "timed_out", "closed", "broken", "reset", "restarted"};
    (void)user;
    char next[16] = "-";
    if (end->has_next) snprintf(next, sizeof next, "%u", end->next);
    say("end %llu %u %s %s %d", (unsigned long long)receiver, stream, reasons[end->reason], next,
        end->is_tail_unknown);
}

static void begin(const char *name) {
    char path[LINE_MAX_BYTES];
    snprintf(path, sizeof path, "%s/%s.cmd", directory, name);
    commands = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
    snprintf(path, sizeof path, "%s/%s.log", directory, name);
    log_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (commands < 0 || log_file < 0) _exit(73);
    say("start %ld", (long)getpid());
}

static struct run *find(unsigned number) {
    for (size_t i = 0; i < run_count; i++)
        if (runs[i].number == number) return &runs[i];
    say("error no run %u", number);
    _exit(74);
}

static int send_one(struct run *run, const void *data, size_t length, uint32_t flags, uint32_t *sqn) {
    if (run->sender) return tickcast_sender_send(run->sender, data, length, flags);
    return tickcast_source_send(context, run->source, data, length, flags, sqn);
}

static void is_refused(int number, int code) {
    if (code == TICKCAST_ERROR_FORKED) return;
    say("error call %d in a child: %d", number, code);
    _exit(75);
}

/* What its parent has made does nothing in a child. */
static void misuse(void) {
    struct tickcast_left left;
    tickcast_receiver receiver;
    tickcast_sender *sender;
    if (thread) {
        is_refused(0, tickcast_thread_drain(thread, 0, &left));
        is_refused(1, tickcast_thread_receive(thread, "px", 0, &receiver));
        is_refused(2, tickcast_sender_create(thread, "px", NULL, &sender));
    } else {
        is_refused(3, tickcast_context_poll(context));
        is_refused(4, tickcast_context_flush(context));
        is_refused(5, tickcast_context_drain(context, 0, &left));
    }
    for (size_t i = 0; i < run_count; i++)
        if (!runs[i].is_over) is_refused(6, send_one(&runs[i], "", 0, TICKCAST_FLUSH, NULL));
    if (thread) is_refused(7, tickcast_thread_stop(thread));
    say("inert");
}

static void split(const char *name) {
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child > 0) return;
    close(commands), close(log_file);
    begin(name);
    if (context || thread) misuse();
    /* A parent's sender that is freed here ends nothing there. */
    for (size_t i = 0; i < run_count; i++) tickcast_sender_destroy(runs[i].sender);
    run_count = 0, is_open = 0, thread = NULL;
}

static void open_context(const char *way) {
    tickcast_handlers handlers = {.size = sizeof handlers, .on_message = on_message, .on_source = on_source,
                                  .on_begin = on_begin, .on_loss = on_loss, .on_stream_end = on_stream_end};
    tickcast_context_destroy(context); /* its parent's, in a child */
    context = NULL;
    if (strcmp(way, "thread") == 0) {
        if (tickcast_thread_start(NULL, settings, setting_count, &handlers, NULL, &thread)) fail("thread");
    } else {
        if (tickcast_context_create(NULL, settings, setting_count, &context)) fail("context");
        if (tickcast_context_set_handlers(context, &handlers, NULL)) fail("handlers");
    }
    is_open = 1;
    say("opened");
}

/* Sends as much of a run as there is room for; whether the context is open. */
static int send_some(struct run *run, int most) {
    for (int i = 0; i < most && !run->is_over && run->next < run->wanted; i++) {
        size_t length = length_of(run->number, run->next);
        uint32_t sqn = 0;
        fill(payload, length, run->number, run->next);
        /* Said before it is done: of each source at most one message is known to be sent or not. */
        if (!run->is_tried) say("try %u %u %zu", run->number, run->next, length);
        run->is_tried = 1;
        int code = send_one(run, payload, length, 0, &sqn);
        if (code == TICKCAST_ERROR_WOULD_BLOCK) return 1;
        if (code == TICKCAST_ERROR_ENDED && run->sender) return 0;
        if (code) fail("send");
        if (run->sender)
            say("sent %u %u -", run->number, run->next);
        else
            say("sent %u %u %u", run->number, run->next, sqn);
        run->is_tried = 0, run->next++;
    }
    if (run->sender && !run->is_over && tickcast_sender_flush(run->sender)) fail("flush");
    return 1;
}

struct closing {
    long long linger_ns;
    int code;
    tickcast_left left;
};

static void *close_there(void *user) {
    struct closing *closing = user;
    closing->code = tickcast_thread_close(thread, closing->linger_ns, &closing->left);
    return NULL;
}

/* Another thread closes one with a thread of its own, while this one goes on sending until it is refused. */
static void close_context(long long linger_ns) {
    struct closing closing = {.linger_ns = linger_ns};
    say("closing");
    if (thread) {
        pthread_t closer;
        if (pthread_create(&closer, NULL, close_there, &closing)) fail("closer");
        for (size_t i = 0; i < run_count; i++) runs[i].wanted += WHILE_CLOSING;
        for (int is_sending = 1; is_sending;) {
            is_sending = 0;
            for (size_t i = 0; i < run_count; i++)
                is_sending |= !runs[i].is_over && runs[i].next < runs[i].wanted && send_some(&runs[i], 1);
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        }
        pthread_join(closer, NULL);
        for (size_t i = 0; i < run_count; i++) tickcast_sender_destroy(runs[i].sender);
    } else {
        closing.code = tickcast_context_close(context, linger_ns, &closing.left);
        tickcast_context_destroy(context);
    }
    if (closing.code < 0) fail("close");
    say("closed %llu %llu", (unsigned long long)closing.left.messages, (unsigned long long)closing.left.bytes);
    exit(0);
}

static void obey(const char *line) {
    char text[128], transport[16];
    unsigned number, count;
    long long linger_ns;
    if (sscanf(line, "open %15s", transport) == 1) {
        open_context(transport);
    } else if (sscanf(line, "source %u %127s %15s", &number, text, transport) == 3) {
        if (run_count == RUNS_MAX) _exit(76);
        struct run *run = &runs[run_count++];
        *run = (struct run){.number = number};
        if (thread ? tickcast_sender_create(thread, text, transport, &run->sender)
                   : tickcast_source_create(context, text, transport, &run->source))
            fail("source");
        say("source %u %s %s", number, text, transport);
    } else if (sscanf(line, "send %u %u", &number, &count) == 2) {
        struct run *run = find(number);
        run->wanted += count;
        send_some(run, AT_ONCE);
    } else if (sscanf(line, "delete %u", &number) == 1) {
        struct run *run = find(number);
        say("deleting %u", number);
        if (thread)
            tickcast_sender_destroy(run->sender);
        else if (tickcast_source_delete(context, run->source))
            fail("delete");
        run->is_over = 1, run->sender = NULL;
        say("deleted %u", number);
    } else if (sscanf(line, "receive %127s", text) == 1) {
        tickcast_receiver receiver;
        if (thread ? tickcast_thread_receive(thread, text, 0, &receiver)
                   : tickcast_receiver_create(context, text, 0, &receiver))
            fail("receiver");
        say("receiving %llu %s", (unsigned long long)receiver, text);
    } else if (sscanf(line, "fork %127s", text) == 1) {
        split(text);
    } else if (sscanf(line, "close %lld", &linger_ns) == 1) {
        close_context(linger_ns);
    } else if (strcmp(line, "exit") == 0) {
        exit(0);
    } else {
        say("error not understood: %s", line);
        _exit(77);
    }
}

/* Does the next whole line that it is told; whether there was one. */
static int listen_to_driver(void) {
    char line[LINE_MAX_BYTES];
    off_t at = lseek(commands, 0, SEEK_CUR);
    ssize_t length = read(commands, line, sizeof line - 1);
    char *end = length > 0 ? memchr(line, '\n', (size_t)length) : NULL;
    lseek(commands, end ? at + (end - line) + 1 : at, SEEK_SET);
    if (!end) return 0;
    *end = 0;
    obey(line);
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    directory = argv[1], until = time(NULL) + atoi(argv[3]);
    settings = (const char *const *)argv + 4, setting_count = (size_t)argc - 4;
    signal(SIGCHLD, SIG_IGN); /* nobody waits for children */
    begin(argv[2]);
    for (;;) {
        while (listen_to_driver()) continue;
        if (time(NULL) > until) _exit(78);
        if (!is_open) {
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
            continue;
        }
        for (size_t i = 0; i < run_count; i++) send_some(&runs[i], AT_ONCE);
        if (thread)
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        else if (tickcast_context_wait(context, 2000000) < 0)
            fail("wait");
    }
}
