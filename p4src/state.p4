/* Registers that ingress and egress share, and all counters. Index of a queue: port * 8 + class.
 *
 * Simple_switch runs ingress in one thread and egress in four (by port modulo 4), and locks a register for the length of one
 * action. So every read-modify-write of a cell that both sides change stands in one action. */
#ifndef XOFF_STATE
#define XOFF_STATE

#define PORTS 512
#define QUEUES 4096

// ---- bytes in the switch: added by ingress on admission, taken off by egress when the packet leaves its queue ----
@xoff_refused // for REFUSED_PORT, where a target obeys it, egress gets what the traffic manager refused
register<bit<32>>(QUEUES) held_bytes;  // by ingress port and class as received
register<bit<32>>(QUEUES) queue_bytes; // by egress port and class
register<bit<32>>(PORTS) port_bytes;   // by egress port
register<bit<8>>(PORTS) xoff_mask;     // ingress port: classes whose upstream is to be paused (bit = class)

// ---- received PFC: the clock tick until which a queue must not be served; written by ingress only ----
@xoff_queue_pause
register<ticks_t>(QUEUES) pause_until;
register<bit<16>>(QUEUES) pause_epoch; // PFC frames that changed pause_until

// ---- order of a queue that the program holds itself (hold.p4) ----
register<bit<32>>(QUEUES) ticket_tail;   // next ticket to hand out; ingress only
register<bit<32>>(QUEUES) ticket_head;   // next ticket to send; egress only, as the rest
register<bit<32>>(QUEUES) ticket_lowest; // lowest ticket seen out of turn
register<bit<32>>(QUEUES) held_packets;  // packets going round

// ---- transmission ----
register<bit<64>>(PORTS) tx_bytes;          // wire bytes sent (frame + 24, switch/link.py); egress only
register<bit<64>>(PORTS) window_bytes;      // tx_bytes at the last timer visit; ingress only, as the rest
register<ticks_t>(PORTS) window_start;
register<bit<32>>(PORTS) utilisation;       // of the last window, units of 2^-16
register<bit<16>>(1) timer_generation;      // the one timer packet that may go on
register<bit<16>>(16384) spray_count;       // packets sprayed, by 14 bits of the flow's hash
register<bit<16>>(PORTS) int_count;         // RoCE packets since the last sampled one, by ingress port

// ---- counters; index port * 8 + class unless said ----
counter(QUEUES, CounterType.packets_and_bytes) rx;             // IP packets received
counter(QUEUES, CounterType.packets_and_bytes) tx;             // packets sent, PFC frames in class 7
counter(QUEUES, CounterType.packets_and_bytes) ecn_marked;
counter(QUEUES, CounterType.packets_and_bytes) queue_drops;    // DROP_QUEUE by egress port and class
counter(QUEUES, CounterType.packets_and_bytes) headroom_drops; // DROP_HEADROOM by ingress port and class
counter(QUEUES, CounterType.packets) holds;                    // turns that held packets made
counter(QUEUES, CounterType.packets) lost;                     // gaps in the tickets: the target dropped at least one packet
counter(2 * QUEUES, CounterType.packets) pfc_tx;               // (port * 8 + class) * 2 + (1 if XON)
counter(2 * QUEUES, CounterType.packets) pfc_rx;
counter(PORTS, CounterType.packets) pfc_ignored;               // PFC frames naming classes that are lossy here
counter(32 * PORTS, CounterType.packets_and_bytes) drops;      // ingress port * 32 + reason (constants.p4)
counter(4 * PORTS, CounterType.packets_and_bytes) roce;        // ingress port * 4 + (0 data, 1 ACK, 2 NAK, 3 CNP)
counter(4 * PORTS, CounterType.packets) int_hops;              // egress port * 4 + (0 pushed, 1 hop limit, 2 MTU, 3 skipped)
counter(1, CounterType.packets) laps;                          // of the timer packet

#endif
