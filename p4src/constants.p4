/* Names for the numbers that the program shares with its controller, hosts and switch. */
#ifndef XOFF_CONSTANTS
#define XOFF_CONSTANTS

typedef bit<9> port_t;
typedef bit<3> class_t;
typedef bit<48> mac_t;
typedef bit<48> ticks_t; // the switch's P4 clock; the controller knows its rate

// Ports (switch/device.py, docs/architecture.md)
const port_t LOOP_PORT = 508;
const port_t TIMER_PORT = 509;
const port_t CPU_PORT = 510;
const port_t REFUSED_PORT = 511; // what the traffic manager refuses passes egress for it (state.p4)

// Clone sessions that the controller installs
const bit<32> PFC_SESSION = 1;    // to LOOP_PORT
const bit<32> REPORT_SESSION = 2; // to CPU_PORT

// Field lists: what survives recirculation or cloning (@field_list in metadata.p4). Macros, since annotations want literals.
#define KEPT_BY_HELD 1
#define KEPT_BY_COPY 2
#define KEPT_BY_TIMER 3

// standard_metadata.instance_type in ingress
const bit<32> RECIRCULATED = 4;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_MAC_CONTROL = 0x8808;
const bit<16> ETHERTYPE_TIMER = 0x88b5; // IEEE 802 local experimental 1; never leaves the switch

const bit<16> MAC_CONTROL_PFC = 0x0101;        // IEEE 802.1Qbb
const mac_t PFC_ADDRESS = 0x0180c2000001;
const class_t PFC_CLASS = 7;

const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;
const bit<16> ROCE_UDP_PORT = 4791;
const bit<16> INT_UDP_PORT = 64791;

const bit<8> OPCODE_ACKNOWLEDGE = 0x11;
const bit<8> OPCODE_CNP = 0x81;

const bit<2> ECN_NOT_CAPABLE = 0;
const bit<2> ECN_CONGESTION = 3;

// How a candidate of a group is chosen
const bit<2> BALANCE_ECMP = 0;
const bit<2> BALANCE_SPRAY = 1;
const bit<2> BALANCE_ADAPTIVE = 2;

// Why a frame is dropped: second half of the index of `drops`
const bit<5> DROP_NONE = 0;
const bit<5> DROP_TOO_SHORT = 1;       // ends inside a header that it announces
const bit<5> DROP_MALFORMED = 2;       // a header contradicts itself or the frame's length
const bit<5> DROP_IP_CHECKSUM = 3;
const bit<5> DROP_NOT_IP = 4;
const bit<5> DROP_IP_OPTIONS = 5;
const bit<5> DROP_MAC_CONTROL = 6;     // MAC control, but not PFC
const bit<5> DROP_L2_DESTINATION = 7;  // not addressed to this port
const bit<5> DROP_TTL = 8;
const bit<5> DROP_NO_ROUTE = 9;
const bit<5> DROP_PORT = 10;           // arrived on a port that the controller did not configure
const bit<5> DROP_QUEUE = 11;          // lossy class, egress queue at its limit
const bit<5> DROP_HEADROOM = 12;       // lossless class, ingress buffer beyond XOFF + headroom
const bit<5> DROP_INT_PROBE = 13;      // telemetry said discard at the sink
const bit<5> DROP_PACKET_OUT = 14;     // unknown operation in a packet-out

// Packet-out operations
const bit<4> OUT_SEND = 0;
const bit<4> OUT_START_TIMER = 1;
const bit<4> OUT_STOP_TIMER = 2;
const bit<4> OUT_RESET_PORT = 3;
const bit<4> OUT_RESUME_PORT = 4;

// Packet-in reasons
const bit<6> IN_INT_REPORT = 1;

#endif
