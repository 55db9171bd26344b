/* The packet loop's interface for Python: one loop is one thread serving the sockets of many engines.
 *
 * Python opens and owns the sockets. A device joins with its engine and its ports; once xl_device_remove has returned,
 * the thread touches neither. Functions that return int give a negative number on failure. */
#ifndef XF_LOOP_H
#define XF_LOOP_H

#include "xf.h"

#define XL_MAX_DEVICES 1024

typedef struct xl_loop xl_loop;

/* What the loop itself saw of a port, beyond the engine's counts. Packets. */
typedef struct xl_port_stats {
    uint64_t rx_packets, rx_batches;
    uint64_t rx_oversize;        /* longer than the receive buffer (jumbo frames, GSO): not given to the engine */
    uint64_t rx_errors;          /* receive calls that failed otherwise */
    uint64_t tx_packets;
    uint64_t tx_kernel;          /* the kernel had no room */
    uint64_t tx_kernel_bytes;
    uint64_t tx_mtu;             /* longer than the interface's MTU allows */
    uint64_t tx_mtu_bytes;
    uint64_t tx_down;            /* the interface was down or gone */
    uint64_t tx_down_bytes;
    uint64_t downs;              /* times the interface went down */
} xl_port_stats;

xl_loop *xl_new(void);
void xl_free(xl_loop *loop); /* stops the thread */
int xl_start(xl_loop *loop);
/* Returns the device's number in this loop. */
int xl_device_add(xl_loop *loop, xf_engine *engine);
int xl_device_remove(xl_loop *loop, int device);
int xl_port_add(xl_loop *loop, int device, uint32_t port, int fd);
int xl_port_remove(xl_loop *loop, int device, uint32_t port);
/* Joins two ports without sockets: what leaves one arrives at the other within the process, at once. Lasts until one of
 * the devices is removed. */
int xl_link(xl_loop *loop, int a, uint32_t a_port, int b, uint32_t b_port);
/* A control thread has changed the device: poll it now. */
void xl_wake(xl_loop *loop, int device);
/* Becomes readable when a device has something for a control thread (xf_pending). */
int xl_event_fd(xl_loop *loop);
/* The devices that do, each reported once until it is taken; call after reading the event fd. */
int xl_pending_take(xl_loop *loop, int *devices, int room);
int xl_port_read(xl_loop *loop, int device, uint32_t port, xl_port_stats *out);
/* Frames that the engine sent to a port without a socket (packets, bytes). */
int xl_unattached_read(xl_loop *loop, int device, uint64_t *packets_bytes);
/* Packets that the loop itself has dropped at each port, of any reason; takes no lock. */
void xl_losses(xl_loop *loop, int device, const uint32_t *ports, uint32_t count, uint64_t *packets);

#endif
