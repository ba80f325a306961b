/*
 * Tickcast: publish and subscribe by topic, without a broker.
 *
 * A context holds sockets and protocol state. A source publishes a topic; a receiver hears all sources of a topic, or
 * of all topics that begin alike. Nothing runs by itself: the application calls tickcast_context_poll again and again,
 * or tickcast_context_wait, or gives a thread to tickcast_context_run. Events are told by callbacks from within these
 * calls.
 *
 * Threads. A context belongs to one thread at a time: no two calls with the same context may run at once, and the
 * application sees to that. tickcast_context_stop alone may be called from any thread and from a signal handler.
 * Different contexts are independent.
 *
 * Processes. A context belongs to the process that made it. In a child made by fork, calls with a context, thread or
 * sender of the parent are refused with TICKCAST_ERROR_FORKED; destroying it does nothing to the parent. The child makes
 * its own. Programs that a process executes inherit nothing.
 *
 * Callbacks run on the thread that polls, one at a time. Within them
 *   - tickcast_source_send, tickcast_source_send_hot_failover and tickcast_respond are taken down (a copy of the
 *     payload) and done in their order when the callbacks of this turn are over; the number of the message is not known
 *     yet and told as 0. What a source has no room for waits, and goes before what is sent later by the same source:
 *     sends, claims, requests and the deletion of that source are refused with TICKCAST_ERROR_WOULD_BLOCK meanwhile.
 *     Other sources go on. At most 4,096 messages and 64 MiB wait, half of that of one source; a callback that sends
 *     more is refused with TICKCAST_ERROR_WOULD_BLOCK, and TICKCAST_SOURCE_WAKE_UP follows. Answers have no such event;
 *   - tickcast_last_error and tickcast_context_stop may be called;
 *   - all other calls with the same context are refused with TICKCAST_ERROR_BUSY.
 * They must return normally: no longjmp, no C++ exception.
 *
 * Memory. What a call is given is not used after it has returned, except callbacks and the user pointer of
 * tickcast_context_set_handlers. What a callback is given is valid until it returns. A claimed payload is valid until
 * it is committed or aborted. Sources, receivers, streams and requests are numbers: nothing needs to be freed but the
 * context, and a number that names nothing any more is refused, never taken for another.
 *
 * Errors. Functions return TICKCAST_OK (or a positive answer that they describe) or a negative error;
 * tickcast_last_error says more in words. A bug of the library itself is told as TICKCAST_ERROR_BUG; the context can
 * only be destroyed then.
 *
 * Link with -ltickcast; with libtickcast.a also -lpthread -ldl -lm.
 */
#ifndef TICKCAST_H
#define TICKCAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a function says. */
#define TICKCAST_OK 0
/* An argument is NULL that must not be, or is not UTF-8, or names nothing (any more). */
#define TICKCAST_ERROR_ARGUMENT (-1)
/* File or settings: all faults are told, each with its place. */
#define TICKCAST_ERROR_CONFIG (-2)
/* The system refused something. */
#define TICKCAST_ERROR_IO (-3)
/* Not now: what may wait for the transport waits. TICKCAST_SOURCE_WAKE_UP tells when there is room again. */
#define TICKCAST_ERROR_WOULD_BLOCK (-4)
/* The message is longer than the limit; the text says the limit. */
#define TICKCAST_ERROR_TOO_LONG (-5)
/* The source was deleted, its session has ended, or the context is closed. */
#define TICKCAST_ERROR_ENDED (-6)
/* Called from a callback, or while a claim is open. */
#define TICKCAST_ERROR_BUSY (-7)
/* A bug of the library. */
#define TICKCAST_ERROR_BUG (-8)
/* So many are open already; the text says the limit. */
#define TICKCAST_ERROR_LIMIT (-9)
/* A parent's context in a child made by fork: the child makes its own. */
#define TICKCAST_ERROR_FORKED (-10)

/* What a send asks for; to be combined. */
#define TICKCAST_FLUSH 1u
#define TICKCAST_BATCH_START 2u
#define TICKCAST_BATCH_END 4u

/* What is special about a message. */
#define TICKCAST_RECOVERED 1u      /* it came by retransmission */
#define TICKCAST_LATE_JOIN 2u      /* it was sent before the receiver joined */
#define TICKCAST_OFF_TRANSPORT 4u  /* it was recovered after the transport had given it up */
#define TICKCAST_IS_REQUEST 8u     /* it may be answered; `asked` says where */
#define TICKCAST_IS_BATCH_START 16u
#define TICKCAST_IS_BATCH_END 32u
#define TICKCAST_HAS_NUMBER 64u    /* it was sent for hot failover; `number` is its number */

/* How a receiver takes its messages; to be combined. */
#define TICKCAST_ARRIVAL_ORDER 1u  /* as they arrive; else as `ordered_delivery` says */
/*
 * Several sources send the same messages, each under a number of the application (tickcast_source_send_hot_failover):
 * the first copy of each, in the order of the numbers; messages without one are left out. In topic order alone.
 */
#define TICKCAST_HOT_FAILOVER 2u

/* Events of a source. */
#define TICKCAST_SOURCE_RECEIVER_CONNECTED 1
#define TICKCAST_SOURCE_RECEIVER_DISCONNECTED 2
#define TICKCAST_SOURCE_WAKE_UP 3
#define TICKCAST_SOURCE_RECEIVER_TOO_SLOW 4 /* it is left to its losses for a while; over TCP it took nothing and was passed over */

/* Why a stream is over. */
#define TICKCAST_END_ENDED 1     /* the source said so */
#define TICKCAST_END_TIMED_OUT 2 /* it was not heard for the activity timeout */
#define TICKCAST_END_CLOSED 3    /* it was closed on this side */
#define TICKCAST_END_BROKEN 4    /* the connection to it broke */
#define TICKCAST_END_RESET 5     /* it refused the receiver, or knew it no longer */
#define TICKCAST_END_RESTARTED 6 /* it was started again in the same session; its stream begins anew */

/* What happened to keys and certificates. */
#define TICKCAST_SECURITY_RELOADED 1            /* changed files were read again and are in force */
#define TICKCAST_SECURITY_RELOAD_FAILED 2       /* changed files cannot be used; what was in force stays */
#define TICKCAST_SECURITY_CERTIFICATE_REFUSED 3 /* a peer's is missing or not acceptable, or ours is not to the peer */
#define TICKCAST_SECURITY_UNREADABLE 4          /* a session's datagrams: no key, another one, or not encrypted */
#define TICKCAST_SECURITY_EXPOSED 5             /* others than its owner can open a file of keys; it is used */

typedef struct tickcast_context tickcast_context;
typedef uint64_t tickcast_source;
typedef uint64_t tickcast_receiver;
/* One source as receivers hear it. */
typedef uint32_t tickcast_stream;
/* A request that was sent and may be answered. */
typedef uint32_t tickcast_request;

/* Where a request is answered. A value: it may be kept. */
typedef struct tickcast_asked {
    uint32_t index;   /* the number of the request at the one who asks */
    uint32_t address; /* IPv4 address of the one who asks, in host order */
    uint16_t port;    /* its request port */
} tickcast_asked;

typedef struct tickcast_message {
    tickcast_receiver receiver;
    tickcast_stream stream;
    uint32_t sqn;       /* topic number, of the last fragment if it was fragmented */
    uint32_t first_sqn; /* topic number of the first fragment */
    uint32_t flags;     /* TICKCAST_RECOVERED and so on */
    const void *data;   /* not aligned; valid until the callback returns */
    size_t length;
    tickcast_asked asked; /* all zero if this is no request */
    uint64_t number;    /* of the application, with TICKCAST_HAS_NUMBER; else 0 */
} tickcast_message;

/* How a stream has ended. */
typedef struct tickcast_end {
    int reason;          /* TICKCAST_END_... */
    int has_next;        /* 1 if something of the stream was heard, or told as lost */
    uint32_t next;       /* the topic number that would have come next, with has_next; else 0 */
    int is_tail_unknown; /* 1 if further messages may have been sent that nobody knows of: the end itself was not heard */
} tickcast_end;

/* What has not left a context; all zero if everything has. */
typedef struct tickcast_left {
    uint64_t messages;  /* accepted and not sent to every receiver; fragments count singly */
    uint64_t bytes;     /* not sent, or not acknowledged by the kernel of a TCP peer; direct messages too */
    uint32_t sessions;  /* transport sessions with such messages */
    uint32_t receivers; /* receivers that lack something, as far as the transports know them */
} tickcast_left;

/* Callbacks; each may be NULL. `user` is what tickcast_context_set_handlers was given. */
typedef struct tickcast_handlers {
    size_t size; /* sizeof(tickcast_handlers): later versions of the library have more callbacks */
    void (*on_message)(void *user, const tickcast_message *message);
    /* A source was found; before anything else of its stream. `source` is how the field writes it. */
    void (*on_source)(void *user, tickcast_receiver receiver, tickcast_stream stream, const char *topic,
                      const char *source);
    /* The first message of the stream follows, or the loss of it; `first` is its number. */
    void (*on_begin)(void *user, tickcast_receiver receiver, tickcast_stream stream, uint32_t first);
    /* `count` messages from `first` will not come; `is_burst` is 1 for more than the configured many. */
    void (*on_loss)(void *user, tickcast_receiver receiver, tickcast_stream stream, uint32_t first, uint32_t count,
                    int is_burst);
    /* The stream is over; its number is not used again. `reason` is TICKCAST_END_... */
    void (*on_end)(void *user, tickcast_receiver receiver, tickcast_stream stream, int reason);
    /* `event` is TICKCAST_SOURCE_...; `peer` is "address:port" or NULL. */
    void (*on_source_event)(void *user, tickcast_source source, int event, const char *peer);
    /* An answer to a request of ours; there may be many. */
    void (*on_response)(void *user, tickcast_request request, const void *data, size_t length);
    /* Nobody will answer this request any more. */
    void (*on_request_end)(void *user, tickcast_request request);
    /*
     * With TICKCAST_HOT_FAILOVER, in place of on_loss: no source of the topic can deliver `count` numbers from `first`.
     */
    void (*on_failover_loss)(void *user, tickcast_receiver receiver, const char *topic, uint64_t first,
                             uint64_t count);
    /* `event` is TICKCAST_SECURITY_...; `text` names the files, or the peer and the reason, for people. */
    void (*on_security)(void *user, int event, const char *text);
    /* As on_end, and called before it: with the number that would have come next. `end` is valid until it returns. */
    void (*on_stream_end)(void *user, tickcast_receiver receiver, tickcast_stream stream, const tickcast_end *end);
    /* So many receivers of the source's topic have answered, after tickcast_source_watch_receivers. */
    void (*on_receivers)(void *user, tickcast_source source, uint32_t count);
} tickcast_handlers;

/* The version of the library, as text. */
const char *tickcast_version(void);
/* What the last call of this thread that failed had to say; valid until the next one fails. Never NULL. */
const char *tickcast_last_error(void);

/*
 * A context. `file` is the path of a TOML file with a section [messaging], or NULL; `settings` are `count` texts
 * "key=value" that stand over it, such as "interface=10.29.4.0/24" or "lbtrm.destination_port=14401". *context is NULL
 * after an error.
 */
int tickcast_context_create(const char *file, const char *const *settings, size_t count, tickcast_context **context);
/*
 * Sends what the context has accepted, tells receivers that its sources end, answers those that ask for something again,
 * all that for `linger_us` of the configuration at most, and frees it; tickcast_last_error then says what did not leave.
 * NULL is nothing.
 */
void tickcast_context_destroy(tickcast_context *context);
/*
 * The same but the freeing, for `linger_ns` at most (negative: as configured; 0: one attempt). 0 if everything has left, 1
 * if not; *left (may be NULL) says what. What LBT-RM and LBT-RU have not sent in time is given up, and receivers report
 * it as loss. No callback is called. Afterwards sends, requests, answers, turns and new sources and receivers are refused
 * with TICKCAST_ERROR_ENDED, and destroying waits no more.
 */
int tickcast_context_close(tickcast_context *context, int64_t linger_ns, tickcast_left *left);
/*
 * Turns until everything that was sent has left, as far as is known: what is sent by rate has gone, peers' kernels have
 * acknowledged, receivers that shared memory waits for have read. At most `timeout_ns` (negative: for ever). 0 if
 * everything has left, 1 if not; *left (may be NULL) says what.
 */
int tickcast_context_drain(tickcast_context *context, int64_t timeout_ns, tickcast_left *left);
/* Who hears events from now on; NULL: nobody. The struct is copied. */
int tickcast_context_set_handlers(tickcast_context *context, const tickcast_handlers *handlers, void *user);
/*
 * One turn without waiting: sends what waits, takes what has arrived. 1 if something may have happened, 0 if not. The
 * first error of sends and answers of callbacks is told here when the turn is over, and by wait, run and close.
 */
int tickcast_context_poll(tickcast_context *context);
/* One turn that waits for something to happen, at most so many nanoseconds (negative: for ever). Else as poll. */
int tickcast_context_wait(tickcast_context *context, int64_t timeout_ns);
/* Turns until tickcast_context_stop is called or a turn fails. */
int tickcast_context_run(tickcast_context *context);
/* Ends tickcast_context_run, within 50 ms, now or when it is called next. */
int tickcast_context_stop(tickcast_context *context);
/* Sends what waits of all sources. */
int tickcast_context_flush(tickcast_context *context);
/*
 * Reads the files of keys and certificates again, now; the context does it by itself when they change. After an error what
 * was in force of the files it names stays.
 */
int tickcast_context_reload_security(tickcast_context *context);
/* A descriptor that is readable when poll has something to take, for other event loops; it must not be closed. */
int tickcast_context_descriptor(tickcast_context *context);
/* How long such a loop may wait before it polls though nothing is readable, ns; INT64_MAX: for ever. */
int64_t tickcast_context_until_wakeup_ns(tickcast_context *context);

/* Publishes a topic, on a transport by name ("lbtrm") or, for NULL, as the configuration says. */
int tickcast_source_create(tickcast_context *context, const char *topic, const char *transport,
                           tickcast_source *source);
/* Sends a message; *sqn (may be NULL) is its topic number. `data` may be NULL if `length` is 0. */
int tickcast_source_send(tickcast_context *context, tickcast_source source, const void *data, size_t length,
                         uint32_t flags, uint32_t *sqn);
/*
 * Sends a message, with turns in which callbacks are called as long as there is no room for it, for `timeout_ns` at most
 * (negative: for ever). TICKCAST_ERROR_WOULD_BLOCK when the time is over. Refused within callbacks.
 */
int tickcast_source_send_wait(tickcast_context *context, tickcast_source source, const void *data, size_t length,
                              uint32_t flags, int64_t timeout_ns, uint32_t *sqn);
/*
 * Turns until `count` receivers have found the source and get its next message, for `timeout_ns` at most (negative: for
 * ever). What is sent before a receiver has found the source does not reach it, unless the source retains messages. 0 if
 * so many are there, 1 if the time is over; *found (may be NULL) says how many there are. A receiver is a context that
 * takes the topic, by name or by pattern. Those of other software, and of older versions, are not counted. Refused within
 * callbacks.
 */
int tickcast_source_wait_for_receivers(tickcast_context *context, tickcast_source source, uint32_t count,
                                       int64_t timeout_ns, uint32_t *found);
/*
 * The same for who turns the context himself: with `watches` 1 the source begins to ask who receives it, and on_receivers
 * tells of each change; with 0 it ends that. *count is how many have answered; 0 unless it asks.
 */
int tickcast_source_watch_receivers(tickcast_context *context, tickcast_source source, int watches);
int tickcast_source_receivers(tickcast_context *context, tickcast_source source, uint32_t *count);
/*
 * Sends a message that other sources of the topic, here or in other processes, send as well, under the same `number`: see
 * TICKCAST_HOT_FAILOVER. The numbers of a source ascend; a jump by more than 2^30 is not believed.
 */
int tickcast_source_send_hot_failover(tickcast_context *context, tickcast_source source, uint64_t number,
                                      const void *data, size_t length, uint32_t flags, uint32_t *sqn);
/*
 * Room for a message of exactly `length` bytes where it will be sent from: fill it, then commit or abort it. Until then
 * all other calls with the context are refused with TICKCAST_ERROR_BUSY.
 */
int tickcast_source_claim(tickcast_context *context, tickcast_source source, size_t length, void **payload);
int tickcast_source_commit(tickcast_context *context, uint32_t *sqn);
int tickcast_source_abort(tickcast_context *context);
/* The longest message that can be claimed. */
int tickcast_source_claim_max(tickcast_context *context, tickcast_source source, size_t *length);
/* Sends what waits of this source. */
int tickcast_source_flush(tickcast_context *context, tickcast_source source);
/*
 * Ends the topic; TICKCAST_ERROR_WOULD_BLOCK while messages that callbacks sent wait for room. Receivers are told the end
 * when the session ends, which other sources of the context may share.
 */
int tickcast_source_delete(tickcast_context *context, tickcast_source source);

/* Hears all sources of a topic, now and later. `flags`: TICKCAST_ARRIVAL_ORDER, TICKCAST_HOT_FAILOVER or 0. */
int tickcast_receiver_create(tickcast_context *context, const char *topic, uint32_t flags,
                             tickcast_receiver *receiver);
/* The same for all topics that begin with `prefix`: 252 bytes at most, where characters such as dots count twice. */
int tickcast_receiver_create_prefix(tickcast_context *context, const char *prefix, uint32_t flags,
                                    tickcast_receiver *receiver);
/*
 * The same for all topics in whose names `pattern` is found. It is in the syntax of Perl, as far as that can be matched
 * in time linear in a name's length: no look around, no references back. 1 to 255 bytes. TICKCAST_ERROR_ARGUMENT if it is
 * not understood; the words say why.
 */
int tickcast_receiver_create_pattern(tickcast_context *context, const char *pattern, uint32_t flags,
                                     tickcast_receiver *receiver);
/* No event for this receiver follows. */
int tickcast_receiver_delete(tickcast_context *context, tickcast_receiver receiver);
/*
 * Tells a receiver with TICKCAST_HOT_FAILOVER that the numbers of its topics begin anew, higher or lower, when all
 * sources of the old ones have ended. What it held back is told by callbacks from within this call.
 */
int tickcast_receiver_restart_hot_failover(tickcast_context *context, tickcast_receiver receiver);

/*
 * Sends a message that may be answered by everyone who receives it, any number of times: on_response hears the answers
 * until tickcast_request_cancel or on_request_end.
 */
int tickcast_request_send(tickcast_context *context, tickcast_source source, const void *data, size_t length,
                          tickcast_request *request);
/* Takes no more answers; no event for it follows. */
int tickcast_request_cancel(tickcast_context *context, tickcast_request request);
/* Answers a request, with what its message says in `asked`; it goes straight to the one who asks. */
int tickcast_respond(tickcast_context *context, const tickcast_asked *asked, const void *data, size_t length);

/* One thing that statistics tell of: who loses, who asks again, by name. All of it is valid until the callback returns. */
typedef struct tickcast_statistic {
    const char *kind;         /* "source", "session" (published on), "peer" (of it), "incoming" (session), "stream" */
    const char *topic;        /* of a source or a stream, else NULL */
    const char *transport;    /* the session, as the field writes it */
    const char *peer;         /* "address:port" or "pid NUMBER" of a peer, else NULL */
    size_t count;             /* how many numbers there are */
    const char *const *names; /* "naks", "lost" and so on: docs/messaging/statistics.md; later versions may have more */
    const uint64_t *values;
} tickcast_statistic;

/*
 * Calls `each` for each session, receiver, stream and source, in this order, 10,000 of them at most; returns 1 if there
 * are more, else 0. For monitoring, about once a second: it takes time that grows with how many there are. The calls
 * come when all was gathered, so `each` may use the context.
 */
int tickcast_context_statistics(tickcast_context *context,
                                void (*each)(void *user, const tickcast_statistic *statistic), void *user);
/*
 * The same page by page, of `most` (1 to 10,000) at most. `at` is 0 at first, and moved to where the next page begins.
 * Returns 1 as long as another page is to be asked for, though one may have none, and 0 after the last.
 */
int tickcast_context_statistics_from(tickcast_context *context, uint64_t *at, size_t most,
                                     void (*each)(void *user, const tickcast_statistic *statistic), void *user);

/*
 * A context with a thread of the library, which drives it by the configured wait strategy, CPU and priority. Callbacks
 * run there, until tickcast_thread_stop has returned; within them, calls with the thread are refused with
 * TICKCAST_ERROR_BUSY, but senders may be used, save what waits for room. Any thread may make these calls.
 */
typedef struct tickcast_thread tickcast_thread;
/* A source of such a context. One thread at a time sends with it, any one. */
typedef struct tickcast_sender tickcast_sender;

/* Starts the thread; arguments as for tickcast_context_create and tickcast_context_set_handlers. */
int tickcast_thread_start(const char *file, const char *const *settings, size_t count,
                          const tickcast_handlers *handlers, void *user, tickcast_thread **thread);
/*
 * Ends the thread, after what senders have taken has left, flushed or not, as tickcast_context_destroy does, and frees
 * it. Senders are destroyed apart, before or after; they are refused from now on.
 */
int tickcast_thread_stop(tickcast_thread *thread);
/* The same within `linger_ns`, and says what did not leave; as tickcast_context_close. */
int tickcast_thread_close(tickcast_thread *thread, int64_t linger_ns, tickcast_left *left);
/* Waits until everything that senders have flushed has left; as tickcast_context_drain. */
int tickcast_thread_drain(tickcast_thread *thread, int64_t timeout_ns, tickcast_left *left);
/* As tickcast_context_statistics; `each` is called on the thread that asks. */
int tickcast_thread_statistics(tickcast_thread *thread,
                               void (*each)(void *user, const tickcast_statistic *statistic), void *user);
/* As tickcast_context_statistics_from; between two pages the context's thread does its work. */
int tickcast_thread_statistics_from(tickcast_thread *thread, uint64_t *at, size_t most,
                                    void (*each)(void *user, const tickcast_statistic *statistic), void *user);
/*
 * As tickcast_receiver_create, _create_prefix, _create_pattern, _delete, _restart_hot_failover, and tickcast_respond;
 * they wait for the thread to do it. Callbacks of a restart come there, before those of anything that arrives later.
 */
int tickcast_thread_receive(tickcast_thread *thread, const char *topic, uint32_t flags,
                            tickcast_receiver *receiver);
int tickcast_thread_receive_prefix(tickcast_thread *thread, const char *prefix, uint32_t flags,
                                   tickcast_receiver *receiver);
int tickcast_thread_receive_pattern(tickcast_thread *thread, const char *pattern, uint32_t flags,
                                    tickcast_receiver *receiver);
int tickcast_thread_forget(tickcast_thread *thread, tickcast_receiver receiver);
int tickcast_thread_restart_hot_failover(tickcast_thread *thread, tickcast_receiver receiver);
/* As tickcast_context_reload_security. */
int tickcast_thread_reload_security(tickcast_thread *thread);
int tickcast_thread_respond(tickcast_thread *thread, const tickcast_asked *asked, const void *data, size_t length);

/* Publishes a topic; as tickcast_source_create. */
int tickcast_sender_create(tickcast_thread *thread, const char *topic, const char *transport,
                           tickcast_sender **sender);
/*
 * Puts a message into the sender's queue, without waiting; it goes to the thread with TICKCAST_FLUSH or
 * tickcast_sender_flush. TICKCAST_ERROR_WOULD_BLOCK when the queue is full, TICKCAST_ERROR_ENDED when the thread has
 * ended or is to.
 */
int tickcast_sender_send(tickcast_sender *sender, const void *data, size_t length, uint32_t flags);
/*
 * The same, but waits for room, for `timeout_ns` at most (negative: for ever). TICKCAST_ERROR_BUSY within callbacks on the
 * library's thread, which is the one that makes room: use tickcast_sender_send there.
 */
int tickcast_sender_send_wait(tickcast_sender *sender, const void *data, size_t length, uint32_t flags,
                              int64_t timeout_ns);
/* The same with a number; as tickcast_source_send_hot_failover. */
int tickcast_sender_send_hot_failover(tickcast_sender *sender, uint64_t number, const void *data, size_t length,
                                      uint32_t flags);
int tickcast_sender_flush(tickcast_sender *sender);
/*
 * Waits as tickcast_source_wait_for_receivers does, for a sender of `thread`. TICKCAST_ERROR_BUSY within callbacks on the
 * library's thread.
 */
int tickcast_thread_wait_for_receivers(tickcast_thread *thread, const tickcast_sender *sender, uint32_t count,
                                       int64_t timeout_ns, uint32_t *found);
/* Ends the topic, when all of it was sent. NULL is nothing. */
void tickcast_sender_destroy(tickcast_sender *sender);

/*
 * A recorder takes down what a program observes: the id and the time of each message, in memory that is there before the
 * first one, and writes it into a file after the run. `tickcast analyse` follows messages from file to file; docs/observer.md
 * describes the file. It needs no context.
 *
 * A recorder belongs to one thread: no two calls with the same one may run at once, and the application sees to that.
 * Different recorders are independent. A child made by fork cannot write what its parent has observed.
 */
typedef struct tickcast_recorder tickcast_recorder;

/* The id of a publisher's message: messages of several publishers in one file are kept apart by it. */
#define TICKCAST_ID(publisher, number) \
    (((uint64_t)(uint16_t)(publisher) << 48) | ((uint64_t)(number) & 0xffffffffffffULL))

/* The TSC where it is a clock (invariant, and the kernel's own clock source), else CLOCK_MONOTONIC. */
#define TICKCAST_CLOCK_DEFAULT 0u
#define TICKCAST_CLOCK_TSC 1u
#define TICKCAST_CLOCK_MONOTONIC 2u
#define TICKCAST_CLOCK_MONOTONIC_RAW 3u

/* What a recorder has come to. */
typedef struct tickcast_recorded {
    uint64_t records;   /* messages that were taken down */
    uint64_t lost;      /* messages that found no room */
    uint64_t capacity;  /* messages that there is room for */
    double cost_ns;     /* of a call inside the library, measured when the recorder was made; it is in the file, too */
    uint32_t clock;     /* TICKCAST_CLOCK_... of its times */
    uint32_t is_locked; /* 1: the system cannot take its memory away; 0: the limit of locked memory forbids it */
} tickcast_recorded;

/*
 * Makes one, with all of its memory: 16 bytes a message. `point` is where messages are observed, as "sender": 1 to 64 bytes.
 * `stream`, up to 64 bytes or NULL, says which messages, if several kinds have the same ids. `capacity` is 1 to 2^35.
 * TICKCAST_ERROR_CONFIG if a name or the capacity is out of its range, or the clock is none here; TICKCAST_ERROR_IO if there
 * is not so much memory. The words say which.
 */
int tickcast_recorder_create(const char *point, const char *stream, uint64_t capacity, uint32_t clock,
                             tickcast_recorder **recorder);
/*
 * Takes a message down: reads the clock, stores two words. TICKCAST_ERROR_LIMIT if there is no room, which is counted;
 * tickcast_last_error says nothing of it.
 */
int tickcast_recorder_record(tickcast_recorder *recorder, uint64_t id);
/* What it has come to so far. */
int tickcast_recorder_look(const tickcast_recorder *recorder, tickcast_recorded *recorded);
/*
 * Writes all of it into a file, whole or not at all, after the run. The recorder goes on; when it writes again, the file has
 * all.
 */
int tickcast_recorder_write(const tickcast_recorder *recorder, const char *path);
/* Frees it, written or not. NULL is nothing. */
void tickcast_recorder_destroy(tickcast_recorder *recorder);

#ifdef __cplusplus
}
#endif

#endif
