/* Changes from the control side, many at once: they are applied under one lock, so between two packets. */
#include "engine.h"

static int apply(xf_engine *e, const xf_op *o) {
    if (o->kind <= XF_ENTRY_TIMEOUT) return tables_op(e, o);
    if (o->kind <= XF_GROUP_DELETE) return profiles_op(e, o);
    if (o->kind <= XF_REGISTER) return state_op(e, o);
    if (o->kind <= XF_METER_CLEAR) return meters_op(e, o);
    if (o->kind <= XF_CLONE_DELETE) return replication_op(e, o);
    if (o->kind == XF_VALUE_SET) return value_sets_op(e, o);
    if (o->kind == XF_CRC) return crcs_op(e, o);
    return XF_EINVAL;
}

int xf_apply_ops(xf_engine *e, const xf_op *ops, uint32_t count, uint32_t *done) {
    uint32_t i;
    int rc = 0;
    engine_lock(e);
    for (i = 0; i < count && !(rc = apply(e, &ops[i])); i++) {}
    engine_unlock(e);
    if (done) *done = i;
    return rc;
}
