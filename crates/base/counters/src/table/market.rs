use crate::counters;

counters! {
    /// The core of a source distributor.
    struct Distributor("distributor") {
        providers: Gauge, "connections", "Providers logged in.";
        logins_denied: Total, "messages", "Logins of providers denied because of who logs in, and with what or from where.";
        logins_revoked: Total, "connections", "Those among them that had been logged in before the list of users changed.";
        peers: Gauge, "links", "Point-to-point servers with a link to this instance.";
        services: Gauge, "services", "Services that a provider has announced.";
        services_shared: Gauge, "services", "Those that more than one non-interactive provider publishes.";
        items: Gauge, "items", "Items in the cache.";
        items_taken_over: Total, "items", "Items that came from another non-interactive provider from then on: theirs was lost, silent or suspect.";
        messages_standby: Total, "messages", "Messages about items that come from another non-interactive provider, kept for when that is lost.";
        refreshes_in: Total, "messages", "Refresh messages from providers, parts counted singly.";
        updates_in: Total, "messages", "Update messages from providers.";
        statuses_in: Total, "messages", "Item status messages from providers.";
        updates_unwanted: Total, "messages", "Updates kept in the cache alone, because no peer wants the item.";
        updates_without_image: Total, "messages", "Updates dropped because the item never had a refresh.";
        messages_refused: Total, "messages", "Messages from providers that were malformed or out of place.";
        items_spoilt: Total, "messages", "Those among them that made an item suspect until its next image, because they could not be read.";
        stream_messages_out: Total, "messages", "Messages sent on the streams of all services, heartbeats left out.";
        stream_bytes_out: Total, "bytes", "Bytes of these messages, as they are before batching, without what carries them.";
        progress_in: Total, "messages", "Reports of peers about how far they have taken the streams.";
        provider_holds: Total, "times", "How often providers were held back, because a peer lacked more than the window.";
        providers_held_ns: Total, "ns", "How long providers were held back in all.";
        peers_behind: Gauge, "links", "Peers that providers are not held back for, because they take less than the floor.";
        peers_left_behind: Total, "links", "How often a peer was left behind for that.";
        interests: Total, "messages", "Requests from peers for an item.";
        image_requests_deferred: Total, "messages", "Requests from peers for an image, and images that they waited for, that were served later: much waited for the link, or the turn's work was done.";
        peers_waiting: Gauge, "links", "Peers that wait for their turn to get images.";
        interests_refused: Total, "messages", "Those refused because no more items are kept.";
        images_out: Total, "messages", "Image messages sent to single peers, parts counted singly.";
        items_not_found: Total, "messages", "Requests from peers for an item that its provider does not publish.";
        gap_queries: Total, "messages", "Questions from peers about lost ranges.";
        gap_queries_too_old: Total, "messages", "Those that reached further back than what is remembered.";
        gap_queries_deferred: Total, "messages", "Those that were answered in a later turn: they concern many messages, or there was no room.";
        link_messages_refused: Total, "messages", "Messages from peers that were malformed or out of place.";
        cleanups_waiting: Gauge, "tasks", "Clean-ups that go on in the turns that follow: providers, services and point-to-point servers that are gone, states of many items.";
        providers_waiting: Gauge, "providers", "Providers from which nothing is read until clean-ups that they have caused are done.";
        provider_waits: Total, "waits", "Times a provider began to wait so.";
        streams_open: Gauge, "streams", "Streams open or asked for at dialled providers.";
        items_queued: Gauge, "items", "Items that wait for a dialled provider with room for a request.";
        items_over_limit: Total, "items", "Items that had to wait because every dialled provider of the service had as many open as it takes.";
        requests_out: Total, "messages", "Requests for items sent to dialled providers.";
        requests_unanswered: Total, "messages", "Those that were not answered in time.";
        images_recalled: Total, "messages", "Requests for the image of an item that is open, of a service without a cache.";
        items_lost: Total, "items", "Items whose dialled provider was lost, to be asked for again.";
        services_refused: Total, "services", "Services of providers, each time they were announced, that were not taken: published and asked for at once, or unfit.";
        dictionaries_differing: Total, "dictionaries", "Dictionaries of dialled providers that differ in name, version or id from those that clients get.";
        logins_unanswered: Total, "connections", "Dialled providers that did not answer login and directory request in time.";
        messages_unasked: Total, "messages", "Messages on streams that are closed, and acknowledgements nobody waits for, dropped.";
        posts_in: Total, "messages", "Posts of clients, parts counted singly.";
        posts_out: Total, "messages", "Those passed to a provider.";
        posts_cached: Total, "messages", "Those that changed a cached item.";
        posts_refused: Total, "messages", "Those refused, by this side of the provider.";
        acks_in: Total, "messages", "Acknowledgements of providers passed on.";
        posts_outstanding: Gauge, "messages", "Posts that wait for the acknowledgement of a provider, or for their last part.";
        generics_in: Total, "messages", "Generic messages of clients passed to a provider.";
        generics_out: Total, "messages", "Generic messages of providers for all who watch an item.";
        private_streams: Gauge, "streams", "Private streams open at providers.";
        private_streams_refused: Total, "messages", "Requests of private streams refused without asking a provider.";
        private_messages_out: Total, "messages", "Messages of providers on private streams passed on.";
    }
}

counters! {
    /// Images on disk, which a source distributor writes for its next run.
    struct SavedImages("distributor_saved_images") {
        written: Total, "files", "Files that were written whole; each replaces the one before.";
        failures: Total, "files", "Files that could not be written; the one before stayed.";
        messages: Gauge, "messages", "Messages of the last file: a directory, and images in parts.";
        bytes: Gauge, "bytes", "Length of the last file.";
        messages_restored: Gauge, "messages", "Messages that an earlier run had saved and that were given back at the start.";
    }
}

counters! {
    /// The core of a point-to-point server.
    struct PointToPoint("p2ps") {
        clients: Gauge, "connections", "Clients logged in.";
        logins_denied: Total, "messages", "Logins denied because of who logs in, and with what or from where.";
        logins_revoked: Total, "connections", "Those among them that had been logged in before the list of users changed.";
        clients_disconnected: Total, "connections", "Clients disconnected by an operator.";
        clients_drained: Total, "connections", "Clients moved on because the server is drained.";
        clients_to_drain: Gauge, "connections", "Connections that are still to be moved on.";
        is_drained: Gauge, "flag", "1 while no clients are taken because the server is drained.";
        services: Gauge, "services", "Services in the directory that clients get.";
        services_unnamable: Total, "services", "Services of instances, each time they were announced, that were not taken: their names cannot be those of topics.";
        services_renumbered: Total, "services", "Services of instances that have another id there than clients see.";
        items: Gauge, "items", "Items that clients watch, or that linger after the last has left.";
        watchers: Gauge, "streams", "Open item streams of all clients.";
        items_suspect: Gauge, "items", "Watched items whose image is missing or not to be trusted now.";
        stream_messages_in: Total, "messages", "Messages of the backbone's service streams.";
        updates_in: Total, "messages", "Updates of watched items.";
        updates_unwatched: Total, "messages", "Updates of items that nobody watches here, dropped at once.";
        updates_held: Total, "messages", "Updates held back until the image they belong to has come.";
        images_older: Total, "images", "Suspect images that were older than what clients have had: their state alone was taken.";
        updates_stale: Total, "messages", "Updates dropped because the image already holds them.";
        updates_out: Total, "messages", "Updates handed to clients' connections.";
        updates_outside_views: Total, "messages", "Updates that a stream was not sent because its view shows nothing of them.";
        refreshes_out: Total, "messages", "Refresh messages handed to clients' connections, parts counted singly.";
        images_deferred: Total, "messages", "Images for clients that had not taken what they were sent before, put off until they have.";
        clients_conflated: Gauge, "clients", "Clients that read too slowly and are sent the newest values when they have room.";
        conflations_begun: Total, "steps", "Times that a client stepped down from every update to the newest values.";
        conflations_ended: Total, "steps", "Times that a client that had caught up stepped up to every update again.";
        clients_at_interval: Gauge, "clients", "Those among them that are too slow for this and are sent the newest values in rounds.";
        intervals_begun: Total, "steps", "Times that a client stepped down from the newest values to rounds of them.";
        intervals_ended: Total, "steps", "Times that a client whose rounds left at once stepped up from them.";
        updates_conflated: Total, "messages", "Updates that a stream was not sent because a later image of its item holds them.";
        statuses_out: Total, "messages", "Item status messages handed to clients' connections.";
        images_in: Total, "messages", "Images received, parts counted singly.";
        images_requested: Total, "messages", "Images asked for.";
        gaps: Total, "gaps", "Ranges of a stream that the carrier could not deliver.";
        messages_lost: Total, "messages", "Stream messages in those ranges.";
        streams_silent: Total, "streams", "Streams of services from which nothing came for p2ps.silence_timeout_ms, though their instance's directory did.";
        messages_behind_gaps: Total, "messages", "Stream messages that waited until it was known which items a gap before them concerns.";
        gap_resyncs: Total, "gaps", "Gaps after which all items of the service were asked for again.";
        intake_bytes: Gauge, "bytes", "Backbone messages that wait because the server is busy.";
        intake_delay_ns: Gauge, "ns", "How long the oldest of them has waited.";
        intake_dropped: Total, "messages", "Backbone messages dropped because too many bytes waited.";
        hop_stamps_in: Total, "messages", "Updates of watched items with hop stamps.";
        hop_stamps_refused: Total, "messages", "Updates whose hop stamps were ignored: malformed, or more than an hour away from this host's clock.";
        hop_clocks_behind: Total, "messages", "Hops of updates that ended before they began, by clocks that are not alike; they count as 0.";
        progress_out: Total, "messages", "Reports to source distributors about how far their streams are taken.";
        held_overflows: Total, "items", "Items asked for again because too many updates were held back for them.";
        requests_refused: Total, "messages", "Item requests answered with a closed stream.";
        batches_in: Total, "messages", "Requests and reissues for several items at once.";
        round_trips: Total, "measurements", "Round trips to clients measured.";
        posts_in: Total, "messages", "Posts of clients, parts counted singly.";
        posts_refused: Total, "messages", "Posts that this server has refused: not to be passed on, not answered in time, or their instance lost.";
        posts_outstanding: Gauge, "messages", "Posts that wait for their acknowledgement.";
        acks_out: Total, "messages", "Answers to posts handed to clients' connections, refusals by others among them.";
        generics_in: Total, "messages", "Generic messages of clients passed on.";
        generics_out: Total, "messages", "Generic messages handed to clients' connections.";
        answers_late: Total, "messages", "Answers from source distributors to posts or streams that are gone.";
        client_messages_deferred: Total, "messages", "Messages from clients that waited, because their client or all together had asked for much in this turn.";
        clients_waiting: Gauge, "connections", "Clients that wait for what they have asked for, and from which nothing is read meanwhile.";
        cleanups_waiting: Gauge, "tasks", "Clean-ups that go on in the turns that follow: clients that are gone, services whose items are told a state or asked for.";
        client_messages_refused: Total, "messages", "Messages from clients that were malformed or out of place.";
        messages_refused: Total, "messages", "Messages from source distributors that were malformed or out of place.";
        instances: Gauge, "instances", "Source distributor instances with a working link.";
        services_shadowed: Total, "services", "Services in directories that were not taken because a composed service has their name.";
        composed_items: Gauge, "items", "Items of composed services that clients watch, by the names that they ask for.";
        composed_switches: Total, "items", "Items of composed services that went on from another member.";
        composed_refusals: Total, "items", "Items of composed services that a member has closed or does not have, so that the next one is asked.";
        hot_items: Gauge, "items", "Items of hot services that follow both source distributors.";
        hot_items_single: Gauge, "items", "Those that follow one alone: the other is not there, or is not proven to say the same.";
        hot_items_unnumbered: Gauge, "items", "Those that follow one alone because what the provider or the two say cannot be compared: they fail over warm.";
        hot_duplicates: Total, "messages", "Messages of hot services that were dropped: the other source distributor's copy had come first, or they are taken from there.";
        hot_switches: Total, "items", "Items that went on from the other source distributor, because the one they were led by was lost or bad.";
        hot_lacking: Total, "messages", "Messages that one source distributor did not have and the other one had.";
        hot_differing: Total, "messages", "Messages that differ from the copy that was taken: the item is taken from one source distributor alone.";
        hot_images_differing: Total, "images", "Images that differ from what clients have at the same number: the source distributor is not joined.";
        hot_waits_ended: Total, "times", "Times that numbers were left out without the other source distributor's word, because p2ps.hot_wait_ms was over.";
        hot_late: Total, "messages", "Messages that came after that, or out of order: the item was suspect and asked for anew.";
    }
}
