/* What NICs report: records in the order of events, and messages at once. */
#include "nic.h"

#define ROOM 65536u

struct xn_group {
    xn_notify notify;
    void (*entered)(void *context);
    void *context;
    uint32_t members;
    uint32_t count, taken;
    xn_event events[ROOM];
};

xn_group *xn_group_new(xn_notify notify) {
    xn_group *group = calloc(1, sizeof *group);
    if (group) group->notify = notify;
    return group;
}

void xn_group_free(xn_group *group) { free(group); }

void xn_group_entered(xn_group *group, void (*entered)(void *), void *context) {
    group->entered = entered;
    group->context = context;
}

uint32_t xn_group_add(xn_group *group) { return group->members++; }

uint32_t xn_events_take(xn_group *group, xn_event *out, uint32_t room) {
    uint32_t n = group->count - group->taken;
    if (n > room) n = room;
    memcpy(out, group->events + group->taken, n * sizeof *out);
    group->taken += n;
    if (group->taken == group->count) group->taken = group->count = 0;
    return n;
}

static void notify(xn_group *group, const xn_message *message) {
    if (group->entered) group->entered(group->context);
    group->notify(message);
}

void xn_log(xn_nic *nic, enum xn_event_kind kind, uint32_t qpn, uint32_t cls, uint64_t time, uint64_t value) {
    xn_group *group = nic->group;
    xn_event *e;
    if (group->count == ROOM) {
        xn_message full;
        memset(&full, 0, sizeof full);
        full.notice = XN_EVENTS_FULL;
        notify(group, &full);
        if (group->count == ROOM) return; /* nobody took them: the binding has failed and says so */
    }
    e = &group->events[group->count++];
    e->time = time;
    e->value = value;
    e->nic = nic->number;
    e->kind = (uint32_t)kind;
    e->qpn = qpn;
    e->cls = cls;
}

void xn_tell(xn_nic *nic, xn_message *message) {
    message->nic = nic->number;
    notify(nic->group, message);
}
