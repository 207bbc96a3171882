/*
 * What the files of holdfast-ipam share. Nothing here allocates: every buffer has a fixed size, and every function that
 * can fail returns false and says why in a `struct trouble`.
 */
#ifndef HOLDFAST_SHIM_H
#define HOLDFAST_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Error codes of the CNI specification, section 5, as far as the shim itself uses them. */
enum cni_code {
    CNI_BAD_ENVIRONMENT = 4,
    CNI_IO_FAILURE = 5,
    CNI_UNDECODABLE = 6,
    CNI_BAD_CONFIGURATION = 7,
    CNI_TRY_AGAIN_LATER = 11,
    CNI_NOT_AVAILABLE = 50, /* STATUS only */
};

enum { TROUBLE_TEXT_BYTES = 1024 }; /* room for a path and a sentence */
struct trouble {
    enum cni_code code;
    char message[TROUBLE_TEXT_BYTES];
    char details[TROUBLE_TEXT_BYTES];
};

/* A buffer being filled. What does not fit is left out and sets `overflowed`. */
struct text {
    char *bytes;
    size_t capacity;
    size_t length;
    bool overflowed;
};

/* trouble.c */
/* Fills `trouble`, cutting what is too long. Returns false: a failing function can end with `return fail(…)`. */
bool fail(struct trouble *trouble, enum cni_code code, const char *details, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
enum { ERROR_BYTES_MAX = 2 * 6 * TROUBLE_TEXT_BYTES + 128 }; /* a byte may become six: \u00xx */
void put_error(struct text *text, const struct trouble *trouble);

/* json.c */
void put(struct text *text, const char *string);
void put_json_string(struct text *text, const char *bytes, size_t length);
size_t utf8_character(const char *bytes, size_t length, uint32_t *code_point);

/* io.c */
uint64_t boot_us_now(void); /* CLOCK_BOOTTIME: orders the calls of one boot */
int64_t now_ms(void);       /* CLOCK_MONOTONIC: every deadline is on it */
short wait_ready(int fd, short events, int64_t deadline_ms);
bool write_all(int fd, const char *bytes, size_t length);
void hold_standard_descriptors(void);

/* environment.c */
struct verb {
    const char *name;
    bool has_container; /* CNI_CONTAINERID and CNI_IFNAME are part of the call */
    bool needs_netns;
    bool always_succeeds;
    bool has_result;    /* an answer without a JSON object is none */
    int time_limit_ms;  /* from the start of the shim to the whole answer */
    int absent_ms;      /* how long the next daemon is waited for where none listens, or one ends while it is asked; 0: not */
    enum cni_code away; /* the error code when there is no daemon, or none that is understood */
};
const char *variable(const char *name);
const struct verb *check_environment(struct trouble *trouble);

/* settings.c */
struct settings {
    const char *socket_path;
    const char *spool_path;
};
bool read_settings(struct settings *settings, struct trouble *trouble);
int time_limit_ms(const struct verb *verb);
int absent_ms(const struct verb *verb);

/* request.c */
bool read_config(int64_t deadline_ms, struct trouble *trouble);
void forget_config(void);
enum { BOOT_ID_BYTES = 64 }; /* a UUID and room */
void read_boot_id(const char *socket_path, char id[BOOT_ID_BYTES]);
bool write_body(struct text *body, const struct verb *verb, const char *boot_id, uint64_t boot_us,
                struct trouble *trouble);

/* answer.c */
struct answer {
    int status;
    bool from_ending; /* the daemon is ending, and leaves the request to the next one */
    const char *body;
    size_t body_length;
};
enum {
    ANSWER_HEAD_BYTES_MAX = 16 * 1024,   /* Node's own limit for a head; our daemon's has about 150 bytes */
    ANSWER_BODY_BYTES_MAX = 1024 * 1024, /* a CNI result with thousands of routes; refuses a runaway peer */
};
enum progress { INCOMPLETE, COMPLETE, BROKEN, CUT };
enum progress read_answer(const char *bytes, size_t length, bool ended, struct answer *answer, const char **fault);

/* exchange.c */
bool exchange(const char *socket_path, const struct text *body, int absent_ms, int64_t deadline_ms,
              struct answer *answer, struct trouble *trouble);

/* spool.c */
enum { SPOOL_FILE_BYTES_MAX = 64 * 1024 }; /* ten large configurations; with the bound on entries, 640 MB of disk at worst */
bool spool(const char *path, const struct text *body, uint64_t boot_us, struct trouble *trouble);

#endif
