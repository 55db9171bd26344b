/* Headers on the wire. */
#ifndef XOFF_HEADERS
#define XOFF_HEADERS

header ethernet_t {
    mac_t dst;
    mac_t src;
    bit<16> ethertype;
}

header vlan_t { // IEEE 802.1Q
    bit<3> pcp;
    bit<1> dei;
    bit<12> vid;
    bit<16> ethertype;
}

header mac_control_t { // IEEE 802.3 clause 31
    bit<16> opcode;
}

header pfc_t { // IEEE 802.1Qbb; times in quanta of 512 bit times, 0 resumes
    bit<8> reserved;
    bit<8> enable;
    bit<16> time0;
    bit<16> time1;
    bit<16> time2;
    bit<16> time3;
    bit<16> time4;
    bit<16> time5;
    bit<16> time6;
    bit<16> time7;
}

header pfc_padding_t { // to the shortest frame, 60 bytes without FCS
    bit<208> zero;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4> version;
    bit<6> dscp;
    bit<2> ecn;
    bit<20> flow_label;
    bit<16> payload_length;
    bit<8> next_header;
    bit<8> hop_limit;
    bit<128> src;
    bit<128> dst;
}

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> length;
    bit<16> checksum;
}

// INT-MD 2.1 over UDP; docs/fabric.md has the layout in words.
header int_shim_t {
    bit<4> type;
    bit<2> npt;
    bit<2> reserved;
    bit<8> length;
    bit<16> original_dport;
}

header int_md_t {
    bit<4> version;
    bit<1> discard;
    bit<1> hops_exceeded;
    bit<1> mtu_exceeded;
    bit<12> reserved;
    bit<5> hop_ml;
    bit<8> remaining_hops;
    bit<16> instructions;
    bit<16> domain_id;
    bit<16> ds_instructions;
    bit<16> ds_flags;
}

// One hop's words, in the order they are pushed
header int_node_t { bit<32> id; }
header int_ports_t { bit<16> ingress; bit<16> egress; }
header int_latency_t { bit<32> ns; }
header int_queue_t { bit<8> id; bit<24> bytes; }
header int_time_t { bit<64> ns; }
header int_level2_t { bit<64> unavailable; }
header int_utilisation_t { bit<32> share; }
header int_buffer_t { bit<8> id; bit<24> bytes; }
header int_tx_bytes_t { bit<64> bytes; }
header int_rate_t { bit<32> kbps; }

header int_stack_t { varbit<8064> words; } // what earlier hops pushed: at most (255 - 3) words

header bth_t { // InfiniBand base transport header
    bit<8> opcode;
    bit<1> solicited;
    bit<1> migrated;
    bit<2> pad;
    bit<4> version;
    bit<16> pkey;
    bit<1> fecn;
    bit<1> becn;
    bit<6> reserved6;
    bit<24> destination_qp;
    bit<1> ack_request;
    bit<7> reserved7;
    bit<24> psn;
}

header aeth_t {
    bit<8> syndrome;
    bit<24> msn;
}

header cnp_t { bit<128> reserved; }

header timer_t { // the resident timer packet, inside the switch only
    bit<16> generation;
    bit<16> port;
    bit<64> laps;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> port;
    bit<3> class;
    bit<4> operation;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<9> egress_port;
    bit<6> reason;
}

struct headers_t {
    packet_out_t packet_out;
    packet_in_t packet_in;
    ethernet_t ethernet;
    vlan_t vlan;
    mac_control_t mac_control;
    pfc_t pfc;
    pfc_padding_t pfc_padding;
    timer_t timer;
    ipv4_t ipv4;
    ipv6_t ipv6;
    udp_t udp;
    int_shim_t int_shim;
    int_md_t int_md;
    int_node_t int_node;
    int_ports_t int_ports;
    int_latency_t int_latency;
    int_queue_t int_queue;
    int_time_t int_arrival;
    int_time_t int_departure;
    int_level2_t int_level2;
    int_utilisation_t int_utilisation;
    int_buffer_t int_buffer;
    int_tx_bytes_t int_tx_bytes;
    int_rate_t int_rate;
    int_stack_t int_stack;
    bth_t bth;
    aeth_t aeth;
    cnp_t cnp;
    // Never sent from here: a sink strips telemetry from the packet and keeps it in these for the copy that reports it,
    // because a copy made in egress has the headers that are valid at the end of egress.
    int_shim_t kept_shim;
    int_md_t kept_md;
    int_node_t kept_node;
    int_ports_t kept_ports;
    int_latency_t kept_latency;
    int_queue_t kept_queue;
    int_time_t kept_arrival;
    int_time_t kept_departure;
    int_level2_t kept_level2;
    int_utilisation_t kept_utilisation;
    int_buffer_t kept_buffer;
    int_tx_bytes_t kept_tx_bytes;
    int_rate_t kept_rate;
    int_stack_t kept_stack;
}

#endif
