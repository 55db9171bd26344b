/* What travels with a packet through the switch. `@field_list(n)` fields survive a recirculation or copy of kind n. */
#ifndef XOFF_METADATA
#define XOFF_METADATA

struct metadata_t {
    // ---- identity of an admitted packet; a held packet keeps it over every turn ----
    @field_list(KEPT_BY_HELD) bit<1> admitted;    // counted in the byte registers and holder of a ticket
    @field_list(KEPT_BY_HELD, KEPT_BY_COPY) port_t in_port;
    @field_list(KEPT_BY_HELD, KEPT_BY_COPY) port_t out_port;
    @field_list(KEPT_BY_HELD) class_t in_class;   // as received: PFC towards the upstream
    @field_list(KEPT_BY_HELD) class_t out_class;  // queue here, DSCP from here on
    @field_list(KEPT_BY_HELD) bit<32> length;     // bytes it is counted with: the frame as received
    @field_list(KEPT_BY_HELD) bit<32> ticket;     // place in its queue's order
    @field_list(KEPT_BY_HELD) bit<32> xon_bytes;
    @field_list(KEPT_BY_HELD) ticks_t arrival;
    @field_list(KEPT_BY_HELD) bit<1> sampled;     // this switch is its telemetry source
    // ---- hold (targets whose queues cannot be paused) ----
    @field_list(KEPT_BY_HELD) bit<1> held;        // has been sent round at least once
    @field_list(KEPT_BY_HELD) bit<32> seen_head;  // the queue's head when it was last seen out of turn
    @field_list(KEPT_BY_HELD) bit<16> seen_epoch; // the queue's pause epoch then
    bit<1> wait;
    // ---- copies: PFC frames and telemetry reports ----
    @field_list(KEPT_BY_COPY) port_t pfc_port;
    @field_list(KEPT_BY_COPY) bit<8> pfc_classes; // classes whose pause state is to be told to pfc_port's peer
    @field_list(KEPT_BY_COPY) bit<1> report;
    // ---- timer ----
    @field_list(KEPT_BY_TIMER) bit<1> timer;

    // ---- one pass through ingress ----
    bit<5> drop_reason;
    mac_t port_mac;
    bit<48> pause_ticks;   // clock ticks per pause quantum, 24 fraction bits
    bit<8> pfc_mask;       // lossless classes of the port
    bit<16> int_every;     // telemetry source for one RoCE packet in this many; 0 = never
    bit<16> sport;
    bit<16> dport;         // the original one when telemetry has taken its place
    bit<2> balance;
    bit<32> hash_seed;
    bit<32> hash;
    bit<16> path_hash;
    bit<16> group;
    bit<1> in_lossless;
    bit<1> out_lossless;
    bit<32> xoff_bytes;
    bit<32> held_limit;
    bit<32> queue_limit;
    // ---- one pass through egress ----
    bit<32> queue_bytes;   // left in the queue behind this packet
    bit<32> held_bytes;    // left for its ingress port and class
    bit<32> wire_length;   // the frame as it leaves
    bit<64> tx_bytes;      // wire bytes this port has sent before it
    bit<16> mtu;
    bit<1> int_sink;
    bit<32> rate_kbps;
}

#endif
