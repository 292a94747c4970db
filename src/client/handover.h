/*
 * handover.h: a session goes to a client in another process: gt_client_detach and gt_client_attach.
 *
 * The session itself stays with the server (dispatcher/live/handover.h). What only its client knows goes through the server in a
 * parcel: which tensors there are, where ids and random numbers go on, what numbers of sites and scopes mean, the config. The next
 * client continues the numbers: its process numbers sites and scopes anew, behind those of the client before.
 */
#ifndef GT_CLIENT_HANDOVER_H
#define GT_CLIENT_HANDOVER_H

#include "client/client.h"

enum { GT_INHERITED_NAME = GT_MAX_NAME + 1 };

/* What the numbers of earlier clients of the session mean. */
struct gt_inherited {
    uint32_t sites, scopes;
    char names[][GT_INHERITED_NAME]; /* of the sites, then of the scopes */
};

/* The name of a site or scope that the client's records have, also of a client before it; "": it has none. Texts are cut to fit. */
void gt__client_site_name(const gt_client *client, uint32_t site, char *text, size_t size);
void gt__client_scope_name(const gt_client *client, uint32_t scope, char name[GT_MAX_NAME + 1]);

/* gt_client_detach, but the client is left to be closed. */
gt_err gt__client_detach(gt_client *client, gt_tensor *const *tensors, size_t count, const void *note,
                         size_t note_bytes, char token[GT_TOKEN_SIZE]);

/* Attaching in steps, as the waits of a language binding differ: read a token; open a client with its secret (gt__client_open);
 * collect what the client before has left. *parcel is empty if that fails. */
gt_err gt__handover_token(const char *token, char address[GT_TOKEN_SIZE], char secret[GT_TOKEN_SIZE]);
gt_err gt__client_collect(gt_client *client, gt_parcel *parcel);

#endif
