/* The v1model architecture of BMv2's simple_switch, declared for this compiler.
   V1MODEL_VERSION chooses between two families of extern signatures: before 20200408 counters, meters and registers are
   indexed by bit<32>; from then on the index type is a type parameter and PortId_t exists. */

#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include "core.p4"

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

match_kind {
    range,     // low .. high
    optional,  // exact, or anything
    selector   // no match: input of an action selector's hash
}

const bit<32> __v1model_version = V1MODEL_VERSION;

#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#endif

/* What the switch and the program tell each other about a packet. @alias is the name of the field in BMv2. */
@metadata @name("standard_metadata")
struct standard_metadata_t {
#if V1MODEL_VERSION >= 20200408
    PortId_t ingress_port;
    PortId_t egress_spec;   // set in ingress: where to send; 511 drops
    PortId_t egress_port;   // read in egress
#else
    bit<9> ingress_port;
    bit<9> egress_spec;
    bit<9> egress_port;
#endif
    bit<32> instance_type;  // 0 normal, 1 ingress clone, 2 egress clone, 4 recirculated, 5 replica, 6 resubmitted
    bit<32> packet_length;  // bytes
    @alias("queueing_metadata.enq_timestamp")
    bit<32> enq_timestamp;  // when it was queued, timestamp ticks
    @alias("queueing_metadata.enq_qdepth")
    bit<19> enq_qdepth;     // packets in the queue then
    @alias("queueing_metadata.deq_timedelta")
    bit<32> deq_timedelta;  // ticks in the queue
    @alias("queueing_metadata.deq_qdepth")
    bit<19> deq_qdepth;     // packets in the queue when it left
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48> ingress_global_timestamp;
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48> egress_global_timestamp;
    @alias("intrinsic_metadata.mcast_grp")
    bit<16> mcast_grp;      // multicast group; 0 = unicast
    @alias("intrinsic_metadata.egress_rid")
    bit<16> egress_rid;     // which replica this is
    bit<1> checksum_error;  // 1: verify_checksum found a wrong checksum
    error parser_error;
    @alias("intrinsic_metadata.priority")
    bit<3> priority;        // queue, where the switch has priority queues
}

enum CounterType { packets, bytes, packets_and_bytes }
enum MeterType { packets, bytes }

#if V1MODEL_VERSION >= 20200408
extern counter<I> {
    counter(bit<32> size, CounterType type);
    void count(in I index);
}
#else
extern counter {
    counter(bit<32> size, CounterType type);
    void count(in bit<32> index);
}
#endif

/* One counter per entry of the table that names it in its `counters` property. */
extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

#define V1MODEL_METER_COLOR_GREEN 0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED 2

/* Two rates, three colours (RFC 2698, colour-blind). */
#if V1MODEL_VERSION >= 20200408
extern meter<I> {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in I index, out T result);
}
#else
extern meter {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in bit<32> index, out T result);
}
#endif

/* One meter per entry of the table that names it in its `meters` property. */
extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

/* An array of values that outlives the packet. */
#if V1MODEL_VERSION >= 20200408
extern register<T, I> {
    register(bit<32> size);
    @noSideEffects
    void read(out T result, in I index);
    void write(in I index, in T value);
}
#else
extern register<T> {
    register(bit<32> size);
    @noSideEffects
    void read(out T result, in bit<32> index);
    void write(in bit<32> index, in T value);
}
#endif

extern action_profile {
    action_profile(bit<32> size);
}

/* A number between lo and hi, both included. */
extern void random<T>(out T result, in T lo, in T hi);

/* Sends data to the controller. */
extern void digest<T>(in bit<32> receiver, in T data);

enum HashAlgorithm {
    crc32,
    crc32_custom,
    crc16,
    crc16_custom,
    random,
    identity,
    csum16,
    xor16
}

@deprecated("Please use mark_to_drop(standard_metadata) instead.")
extern void mark_to_drop();
/* The packet is dropped at the end of ingress or egress, unless egress_spec is set again after this. */
@pure
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

/* result = base + hash(data) mod max. */
@pure
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

enum CloneType { I2E, E2E }

@deprecated("Please use verify_checksum/update_checksum instead.")
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

/* In VerifyChecksum: sets checksum_error when condition holds and checksum is not the checksum of data. */
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
/* In ComputeChecksum: sets checksum when condition holds. */
@pure
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
/* The same over data and the bytes that the parser left. */
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
@noSideEffects
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

/* Copies the packet to a clone session: from ingress as it arrived (I2E), from egress as it leaves (E2E). */
extern void clone(in CloneType type, in bit<32> session);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
@deprecated("Please use 'clone_preserving_field_list' instead")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);

/* Starts ingress again with the packet as it arrived. Metadata with @field_list(index) keeps its value. */
extern void resubmit_preserving_field_list(bit<8> index);
@deprecated("Please use 'resubmit_preserving_field_list' instead")
extern void resubmit<T>(in T data);

/* Starts ingress again with the packet as egress leaves it. */
extern void recirculate_preserving_field_list(bit<8> index);
@deprecated("Please use 'recirculate_preserving_field_list' instead")
extern void recirculate<T>(in T data);

/* Sends at most so many bytes of the packet. */
extern void truncate(in bit<32> length);

/* Stops the switch when false. */
extern void assert(in bool check);
extern void assume(in bool check);

/* Writes to the switch's log; each {} in msg stands for a field of data. */
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

parser Parser<H, M>(packet_in b, out H parsedHdr, inout M meta, inout standard_metadata_t standard_metadata);
control VerifyChecksum<H, M>(inout H hdr, inout M meta);
@pipeline
control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
@pipeline
control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control ComputeChecksum<H, M>(inout H hdr, inout M meta);
@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(
    Parser<H, M> p,
    VerifyChecksum<H, M> vr,
    Ingress<H, M> ig,
    Egress<H, M> eg,
    ComputeChecksum<H, M> ck,
    Deparser<H> dep);

#endif
