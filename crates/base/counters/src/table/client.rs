use crate::counters;

counters! {
    /// One consumer: its session with a server and its items.
    struct ConsumerSession("consumer") {
        connect_attempts: Total, "attempts", "Attempts at a connection begun.";
        connect_failures: Total, "attempts", "Attempts that ended before the login was accepted.";
        lookup_failures: Total, "attempts", "Those of them that ended because the server's name was not resolved, or not in time.";
        certificate_failures: Total, "attempts", "Those of them that ended because a certificate was missing or not acceptable.";
        version_fallbacks: Total, "attempts", "Attempts repeated with a lower connection version.";
        logins: Total, "logins", "Logins accepted.";
        logins_refused: Total, "logins", "Logins refused or ended by the server.";
        disconnects: Total, "connections", "Sessions lost after the login was accepted.";
        services: Gauge, "services", "Services in the directory.";
        dictionary_downloads: Total, "dictionaries", "Dictionaries downloaded.";
        dictionary_failures: Total, "dictionaries", "Downloads of the dictionary that failed.";
        items: Gauge, "items", "Items subscribed.";
        items_open: Gauge, "items", "Items whose stream the server has answered.";
        requests_sent: Total, "messages", "Item requests sent.";
        requests_timed_out: Total, "messages", "Item requests without an answer in time.";
        requests_held: Total, "messages", "Times that item requests waited because the backlog to the server was full.";
        items_rested: Total, "items", "Items closed by the server for now, to be asked for again after a delay.";
        items_ended: Total, "items", "Items that have ended: closed, redirected, or a snapshot that is complete.";
        refreshes_in: Total, "messages", "Item refreshes received, parts counted singly.";
        updates_in: Total, "messages", "Item updates received.";
        statuses_in: Total, "messages", "Item statuses received.";
        generics_in: Total, "messages", "Generic messages received on item streams.";
        acks_in: Total, "messages", "Acks received.";
        reissues_out: Total, "messages", "Requests sent for items that are open: another view or priority, pause, resume.";
        batches_out: Total, "messages", "Requests and closes sent that are for several items.";
        logins_reissued: Total, "messages", "Logins sent again on a connection: another token, pause, resume.";
        generics_out: Total, "messages", "Generic messages sent on item streams.";
        posts_out: Total, "messages", "Posts sent.";
        posts_taken: Total, "messages", "Posts that the server has acknowledged.";
        posts_refused: Total, "messages", "Posts that the server has refused.";
        posts_unanswered: Total, "messages", "Posts without an ack in time, or before the connection was lost.";
        messages_unwanted: Total, "messages", "Messages received on streams that are not open (any more).";
        messages_refused: Total, "messages", "Messages that were malformed or out of place: each costs its connection.";
        images_spoilt: Total, "images", "Images given up because a payload could not be merged.";
        round_trips: Total, "messages", "Measurements of the round trip sent back.";
        roles_told: Total, "messages", "Messages that told a server its role in a warm standby.";
        json_faults: Total, "messages", "Over WebSocket: messages that could not be made JSON or RWF, or that the server has refused as such.";
    }
}

counters! {
    /// One consumer with warm standby: what it does beside the sessions with its servers.
    struct WarmStandby("standby") {
        switches: Total, "switches", "Times that another server became the active one, for all services or for one.";
        returns: Total, "switches", "Of these: to the preferred server, though the other one was good.";
        images_told: Total, "images", "Images of a standby told as refreshes because it became the active one.";
        images_requested: Total, "images", "Images asked for at a server that became the active one without them.";
        waits: Total, "images", "Images that were older than what had been told, by their sequence numbers, and were waited for.";
        waits_expired: Total, "images", "Of these: told though they were still older at the end of the time allowed.";
        updates_withheld: Total, "messages", "Item updates of servers that were not the active one, or of items that waited for their image.";
    }
}

counters! {
    /// One non-interactive provider: its session with a distribution server and its items.
    struct ProviderSession("provider") {
        connect_attempts: Total, "attempts", "Attempts at a connection begun.";
        connect_failures: Total, "attempts", "Attempts that ended before the login was accepted.";
        lookup_failures: Total, "attempts", "Those of them that ended because the server's name was not resolved, or not in time.";
        certificate_failures: Total, "attempts", "Those of them that ended because a certificate was missing or not acceptable.";
        version_fallbacks: Total, "attempts", "Attempts repeated with a lower connection version.";
        logins: Total, "logins", "Logins accepted.";
        logins_refused: Total, "logins", "Logins refused or ended by the server.";
        disconnects: Total, "connections", "Sessions lost after the login was accepted.";
        items: Gauge, "items", "Items published.";
        items_waiting: Gauge, "items", "Items whose image still has to go out.";
        refreshes_out: Total, "messages", "Refreshes written, parts counted singly.";
        updates_out: Total, "messages", "Updates written.";
        statuses_out: Total, "messages", "Item statuses written.";
        images_republished: Total, "images", "Images written from the cache: after a reconnect, or because they are large.";
        updates_kept: Total, "messages", "Refreshes, updates and statuses that went into an image alone, to go out with it.";
        updates_dropped: Total, "messages", "Messages dropped because there was no connection and no image is kept.";
        would_block: Total, "messages", "Messages refused because the backlog was full.";
        messages_in: Total, "messages", "Messages received from the server.";
        posts_in: Total, "messages", "Posts received.";
        posts_refused: Total, "messages", "Posts refused, by the application or before it.";
        generics_in: Total, "messages", "Generic messages received on item streams.";
        messages_refused: Total, "messages", "Messages that were malformed or out of place: each costs its connection.";
    }
}

counters! {
    /// One interactive provider: its clients and its items.
    struct InteractiveSession("interactive_provider") {
        clients: Gauge, "clients", "Connections of clients, logged in or not.";
        logins: Total, "logins", "Logins accepted.";
        logins_refused: Total, "logins", "Logins refused.";
        items: Gauge, "items", "Items published or asked for.";
        streams: Gauge, "streams", "Item streams of clients.";
        messages_in: Total, "messages", "Messages received from clients.";
        messages_refused: Total, "messages", "Messages that were malformed or out of place.";
        requests_in: Total, "messages", "Item requests received, those of a batch counted singly.";
        requests_refused: Total, "messages", "Requests that were answered with the end of their stream.";
        closes_in: Total, "messages", "Item closes received, those of a batch counted singly.";
        posts_in: Total, "messages", "Posts received.";
        posts_refused: Total, "messages", "Posts refused, by the application or before it.";
        acks_out: Total, "messages", "Acks sent.";
        generics_in: Total, "messages", "Generic messages received on item streams.";
        generics_out: Total, "messages", "Generic messages published.";
        refreshes_out: Total, "messages", "Refreshes made, parts counted singly; each may go to many.";
        updates_out: Total, "messages", "Updates published; each may go to many.";
        statuses_out: Total, "messages", "Item statuses published; each may go to many.";
        images_spoilt: Total, "images", "Images given up because a payload could not be merged.";
    }
}

counters! {
    /// One connection that is kept up for an owner with a session of its own, such as to a dialled provider.
    struct DialledConnection("dialled_connection") {
        connect_attempts: Total, "attempts", "Attempts at a connection begun.";
        connect_failures: Total, "attempts", "Attempts that ended before the server let the owner in.";
        lookup_failures: Total, "attempts", "Those of them that ended because the server's name was not resolved, or not in time.";
        certificate_failures: Total, "attempts", "Those of them that ended because a certificate was missing or not acceptable.";
        version_fallbacks: Total, "attempts", "Attempts repeated with a lower connection version.";
        disconnects: Total, "connections", "Connections lost after the server had let the owner in.";
        messages_in: Total, "messages", "Messages received.";
        overflows: Total, "connections", "Connections closed because the server did not take what it was sent.";
    }
}
