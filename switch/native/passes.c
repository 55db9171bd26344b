/* Passes through the pipelines, and the order of decisions at the end of each.
 *
 * The order is simple_switch's. What differs on purpose: header fields are zero in a new packet (simple_switch shows the
 * last packet's), re-entering packets carry a true ingress timestamp, and one instant may see a packet only so often
 * (loop_limit), so that no program can hang the switch. */
#include "engine.h"

#define CLONE_SESSIONS 0x7fffu

static uint64_t random_word(xf_engine *e) { return split_mix(&e->random); }

uint64_t xf_random(xf_ctx *x, uint64_t low, uint64_t high) {
    uint64_t span = high - low + 1, limit, v;
    if (!span) return random_word(x->engine);
    limit = UINT64_MAX - (UINT64_MAX % span + 1) % span;
    do v = random_word(x->engine);
    while (v > limit);
    return low + v % span;
}

static void context(xf_engine *e, xf_ctx *x) {
    /* Field by field: compilers clear a struct of this size by a slow string instruction. */
    x->parsed = 0;
    x->now = ns_of(e, e->now);
    x->ticks = ticks_of(e, x->now);
    x->ingress_port = x->instance_type = 0;
    x->egress_port = x->enq_qdepth = x->deq_qdepth = x->qid = 0;
    x->enq_ticks = x->deq_timedelta = 0;
    x->egress_spec = x->mcast_grp = 0;
    x->clone_session = x->clone_list = 0;
    x->digest_list = x->resubmit_list = x->recirculate_list = 0;
    x->truncate = UINT32_MAX;
    x->exit = x->budget = 0;
    x->drop_port = e->drop_port;
    x->parser_error = 0;
    x->checksum_error = 0;
    x->source = NULL;
    x->source_list = 0;
    x->engine = e;
    x->tables = e->tables;
    x->counters = e->counters;
    x->counter_sizes = e->counter_sizes;
    x->registers = e->registers;
    x->register_sizes = e->register_sizes;
}

/* A packet that re-enters or is copied at the same instant counts up; 0 when it did so too often. */
static int may_loop(xf_engine *e, const xf_packet *from, xf_packet *to) {
    to->passes = from->pass_time == e->now ? from->passes + 1 : 1;
    to->pass_time = e->now;
    return to->passes <= e->loop_limit;
}

static xf_packet *copy(xf_engine *e, const xf_packet *p, const uint8_t *data, uint32_t length, int with_phv) {
    xf_packet *c;
    if (length > XF_MAX_FRAME) {
        count_drop(e, XF_DROP_OVERSIZE, XF_MAX_PORTS, length);
        return NULL;
    }
    c = packet_new(e->pool, length);
    if (!c || !packet_open(c, e->phvs)) {
        if (c) packet_free(c);
        count_drop(e, XF_DROP_NO_MEMORY, XF_MAX_PORTS, length);
        return NULL;
    }
    memcpy(c->data, data, length);
    if (with_phv) memcpy(c->phv, p->phv, e->program->phv_size);
    c->packet_length = p->packet_length;
    c->ingress_length = p->ingress_length;
    if (!may_loop(e, p, c)) {
        count_drop(e, XF_DROP_LOOP, XF_MAX_PORTS, length);
        packet_free(c);
        return NULL;
    }
    return c;
}

/* What `copy` would return for a packet that is not needed any more: itself. */
static xf_packet *moved(xf_engine *e, xf_packet *p) {
    uint32_t passes = p->passes;
    xf_ps pass_time = p->pass_time;
    packet_reset(p);
    p->passes = passes;
    p->pass_time = pass_time;
    if (may_loop(e, p, p)) return p;
    count_drop(e, XF_DROP_LOOP, XF_MAX_PORTS, p->length);
    packet_free(p);
    return NULL;
}

/* One enqueued copy of `p` (whose PHV carries its instance type) per replica; with `last` the last one is `p` itself.
 * `session` is the clone session that asked for the copies, NULL for multicast. */
static void replicate(xf_engine *e, xf_packet *p, const xf_replicas *r, const xf_replicas *session, int last) {
    uint32_t i;
    for (i = 0; i < r->count; i++) {
        xf_packet *c = last && i + 1 == r->count ? moved(e, p) : copy(e, p, p->data, p->length, 1);
        if (!c) continue;
        if (r->at[i].rid != UINT32_MAX) e->program->set_rid(c->phv, r->at[i].rid);
        if (session && session->truncate) c->truncate = session->truncate;
        port_enqueue(e, c, r->at[i].port, session && session->cls ? session->cls : e->program->get_priority(c->phv));
    }
}

static void send_clones(xf_engine *e, xf_packet *clone, const xf_replicas *session) {
    int last = !session->group && session->count;
    replicate(e, clone, session, session, last);
    if (session->group) {
        const xf_replicas *g = replicas_find(&e->groups, session->group);
        last = g && g->count;
        if (last) replicate(e, clone, g, session, last);
        else count_drop(e, XF_DROP_NO_MULTICAST, XF_MAX_PORTS, clone->length);
    }
    if (!last) packet_free(clone);
}

static const xf_replicas *clone_session(xf_engine *e, uint32_t asked, uint32_t bytes) {
    const xf_replicas *s = replicas_find(&e->sessions, asked & CLONE_SESSIONS);
    if (!s) count_drop(e, XF_DROP_NO_CLONE, XF_MAX_PORTS, bytes);
    return s;
}

void ingress_pass(xf_engine *e, xf_packet *p, uint32_t port, uint32_t instance, const void *source, uint32_t list) {
    const xf_program *prog = e->program;
    xf_packet *again = NULL;
    xf_ctx x;
    for (;;) {
        context(e, &x);
        x.frame = p->data;
        x.length = p->length;
        x.ingress_port = port;
        x.instance_type = instance;
        x.packet_length = p->length;
        x.ingress_length = p->ingress_length;
        x.source = source;
        x.source_list = list;
        if (e->compat && instance != XF_NORMAL) x.ticks = 0;
        prog->ingress(&x, p->phv);
        if (again) packet_free(again);
        again = NULL;
        if (x.parser_error) e->faults.parser_errors++;
        if (x.checksum_error) e->faults.checksum_errors++;

        if (x.clone_session) {
            const xf_replicas *s = clone_session(e, x.clone_session, p->length);
            xf_packet *c = s ? copy(e, p, p->data, p->length, 0) : NULL;
            if (c) {
                xf_ctx y;
                context(e, &y);
                y.frame = c->data;
                y.length = c->length;
                y.ingress_port = port;
                y.packet_length = c->length;
                y.ingress_length = c->ingress_length;
                prog->parse(&y, c->phv);
                prog->reset_metadata(c->phv);
                prog->copy_fields(x.clone_list, c->phv, p->phv);
                prog->set_instance(c->phv, XF_CLONE_I2E);
                c->data += y.parsed;
                c->length -= y.parsed;
                c->packet_length = p->length;
                send_clones(e, c, s);
            }
        }
        if (x.digest_list) {
            uint32_t n = prog->digest(x.digest_list, p->phv, e->scratch);
            if (ring_put(&e->digests, x.digest_list, x.now, e->scratch, n)) engine_tell(e, XF_PENDING_DIGEST);
        }
        if (!x.resubmit_list) break;
        again = p;
        p = copy(e, again, again->data, again->length, 0);
        if (!p) {
            packet_free(again);
            return;
        }
        port = 0;
        instance = XF_RESUBMITTED;
        source = again->phv;
        list = x.resubmit_list;
    }
    p->data += x.parsed;
    p->length -= x.parsed;
    p->packet_length = x.packet_length;
    p->truncate = x.truncate; /* replicas and clones do not inherit it */
    if (x.mcast_grp) {
        const xf_replicas *g = replicas_find(&e->groups, x.mcast_grp);
        prog->set_instance(p->phv, XF_REPLICATED);
        if (g && g->count) {
            replicate(e, p, g, NULL, 1);
            return;
        }
        count_drop(e, XF_DROP_NO_MULTICAST, port, p->packet_length);
        packet_free(p);
        return;
    }
    if (x.egress_spec == e->drop_port) {
        count_drop(e, XF_DROP_INGRESS, port, p->packet_length);
        packet_free(p);
        return;
    }
    prog->set_instance(p->phv, XF_NORMAL);
    port_enqueue(e, p, x.egress_spec, prog->get_priority(p->phv));
}

static void egress_clone(xf_engine *e, const xf_ctx *x, xf_packet *p) {
    const xf_replicas *s = x->clone_session ? clone_session(e, x->clone_session, p->packet_length) : NULL;
    xf_packet *c = s ? copy(e, p, p->data, p->length, 1) : NULL;
    if (!c) return;
    e->program->reset_metadata(c->phv);
    e->program->copy_fields(x->clone_list, c->phv, p->phv);
    e->program->set_instance(c->phv, XF_CLONE_E2E);
    send_clones(e, c, s);
}

void refused_pass(xf_engine *e, xf_packet *p, uint32_t cls) {
    xf_ctx x;
    if (!e->program->takes_refused) return;
    context(e, &x);
    x.frame = p->data;
    x.length = p->length;
    x.packet_length = p->packet_length;
    x.ingress_length = p->ingress_length;
    x.egress_port = e->drop_port;
    x.qid = cls;
    e->program->egress(&x, p->phv);
    egress_clone(e, &x, p);
}

int egress_pass(xf_engine *e, xf_packet *p, xf_port *port, uint32_t cls) {
    const xf_program *prog = e->program;
    uint32_t headers, length;
    xf_ctx x;
    context(e, &x);
    x.frame = p->data;
    x.length = p->length;
    x.packet_length = p->packet_length;
    x.ingress_length = p->ingress_length;
    x.egress_port = port->number;
    x.qid = cls;
    x.enq_ticks = p->enq_ticks;
    x.enq_qdepth = p->enq_qdepth;
    x.deq_timedelta = x.ticks - p->enq_ticks;
    x.deq_qdepth = (uint32_t)port->queues[cls].count;
    x.truncate = p->truncate;
    prog->egress(&x, p->phv);
    p->packet_length = x.packet_length;
    egress_clone(e, &x, p);
    if (x.egress_spec == e->drop_port) {
        count_drop(e, XF_DROP_EGRESS, port->number, p->packet_length);
        packet_free(p);
        return 0;
    }
    headers = prog->deparse(&x, p->phv, p->data);
    if (p->data > p->stamp_at) p->stamp = NULL; /* headers have been written over it */
    length = headers + p->length;
    p->data -= headers;
    p->recirculate_list = x.recirculate_list;
    if (!x.recirculate_list && length > x.truncate) length = x.truncate;
    p->length = length;
    if (length > XF_MAX_FRAME) {
        count_drop(e, XF_DROP_OVERSIZE, port->number, length);
        packet_free(p);
        return 0;
    }
    return 1;
}

void recirculate_pass(xf_engine *e, xf_packet *p) {
    xf_packet before = *p, *old = NULL;
    /* The same frame goes round again with a new PHV; the old one is there until its fields have been taken over. */
    p->phv = NULL;
    if (packet_headroom(p) < e->program->header_bytes || !packet_open(p, e->phvs)) {
        p->phv = before.phv;
        old = p;
        p = copy(e, old, old->data, old->length, 0);
    } else {
        p = moved(e, p);
    }
    if (p) {
        p->ingress_length = before.length;
        ingress_pass(e, p, 0, XF_RECIRCULATED, before.phv, before.recirculate_list);
    }
    if (old) packet_free(old);
    else packet_close(&before);
}
