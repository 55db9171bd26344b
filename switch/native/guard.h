/* A net under the packet path: a machine fault ends one engine instead of the process (guard.c). */
#ifndef XF_GUARD_H
#define XF_GUARD_H

#include "xf.h"

/* From now on faults inside the calls below are caught, in every thread of the process; faults elsewhere take the course
 * they took before. Returns 0, or XF_ENOMEM. */
int xf_guard(void);
/* xf_rx, xf_rx_burst and xf_poll. XF_ECRASHED: a fault has ended the engine, in this call or an earlier one; see xf_crashed. */
int xf_rx_guarded(xf_engine *e, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now);
int xf_rx_burst_guarded(xf_engine *e, const xf_frame *frames, uint32_t count, uint64_t now);
int xf_poll_guarded(xf_engine *e, uint64_t now, xf_frame *out, uint32_t room);

#endif
