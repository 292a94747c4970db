/*
 * quota.h: what the clients of a server use, against their limits (core/limits.h).
 *
 * A session has a gt_quota while the number of its tensors or their bytes are limited, for itself or for its user. Only then
 * are they counted. A record that would pass a limit is not sent: its worker gets a `failure` for the result instead, so
 * that the client finds an exception there as for any instruction that failed, and goes on.
 *
 * What counts: the bytes of a tensor's elements, at once when its record is placed, until the client frees it. Tensors that
 * share memory count once, as far as the dispatcher can tell: views (slices, permutations, expansions, reshapes of whole
 * tensors) count with what they were taken from. A replicated tensor counts once, and what a hot path needs between its
 * inputs and outputs does not count. In a recovery, records that were refused before are refused again, and no others: which of the
 * restored tensors were views is not known.
 *
 * A result that was refused has a handle, as its client may name it. So that a client that goes on does not take memory without
 * end, far beyond its limit such results are left out: from then on, every tensor that the session does not have counts as refused.
 */
#ifndef GT_DISPATCHER_QUOTA_H
#define GT_DISPATCHER_QUOTA_H

#include "core/instruction.h"
#include "core/limits.h"
#include "dispatcher/handles.h"

typedef struct gt_dispatcher gt_dispatcher;
typedef struct gt_session gt_session;
typedef struct gt_peer gt_peer;

/* All connections of one user. */
typedef struct gt_user_account {
    struct gt_user_account *next;
    char name[48];
    unsigned connections;    /* clients and monitors */
    uint64_t bytes, tensors; /* of its sessions that are counted */
    gt_limits limits;
} gt_user_account;

/* Memory that tensors of a session share. */
typedef struct gt_storage {
    uint64_t bytes;
    uint32_t references; /* next unused one while it is unused */
} gt_storage;

/* What a handle counts for. */
typedef struct gt_holding {
    uint32_t storage; /* its number plus one; 0: none */
    bool counted;
    bool whole; /* not a view: its elements lie in order, so that a reshape of it is a view */
} gt_holding;

struct gt_quota {
    gt_user_account *user;
    gt_limits limits;
    uint64_t bytes;
    uint64_t refusals;    /* records that would have passed a limit */
    gt_holding *holdings; /* by handle */
    uint32_t holding_capacity;
    gt_storage *storages;
    uint32_t storage_used, storage_capacity,
        storage_free; /* storage_free: the first unused one plus one; 0: none */
};

/* ---- connections ---- */
/* A peer has said hello as a client or a monitor. GT_ERR_CONNECTION: a limit is reached, which the text names. */
gt_err gt__quota_connect(gt_peer *peer);
void gt__quota_disconnect(gt_peer *peer);

/* ---- sessions ---- */
/* Count what the session has from now on, or no more, as its limits want it. */
gt_err gt__quota_apply(gt_session *session);
void gt__quota_free(gt_session *session);
/* All that it counts is gone. NULL is fine. */
void gt__quota_release(gt_quota *quota);
/* The limits have changed: read the server's config again. The limits of the command line stay. */
gt_err gt__quota_configure(gt_dispatcher *dispatcher);
void gt__quota_users_free(gt_dispatcher *dispatcher);

/* ---- tensors, of a session with a quota ---- */
/* Count the result of a computing record, whose shape is known. *refused: it would pass a limit, and the error text says
 * which; it counts as a tensor without bytes. An error: out of memory. */
gt_err gt__quota_charge(gt_session *session, const gt_slot *record, gt_handle *handle, bool *refused);
/* Count a tensor with memory of its own, whatever the limits are. */
gt_err gt__quota_hold(gt_session *session, gt_handle *handle);
/* Whether so many more tensors and bytes are within the limits, if the memory of `freed` bytes is given back. */
bool gt__quota_admits(const gt_session *session, uint64_t tensors, uint64_t bytes, uint64_t freed);
/* The bytes that freeing this tensor gives back. */
uint64_t gt__quota_frees(const gt_session *session, const gt_handle *handle);
/* The handle of this index is gone, or its tensor is lost. */
void gt__quota_drop(gt_quota *quota, uint32_t index);
/* Place the failure of a record that was refused, with the error text, on the home worker; or leave its result out: the handle is gone
 * then. */
gt_err gt__quota_refuse(gt_session *session, const gt_slot *record, gt_handle *handle);
/* Whether an operand of the record was left out, which has its result left out as well. */
bool gt__quota_misses(const gt_session *session, const gt_slot *record);

#endif
