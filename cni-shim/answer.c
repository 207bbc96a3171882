/* The daemon's answer: as much of HTTP/1.1 as a small JSON answer needs, and a fault for all else. */
#include "shim.h"

#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The value of the header line [line, end) when it is field `name` (with its colon), else NULL. */
static const char *field_value(const char *line, const char *end, const char *name)
{
    size_t length = strlen(name);
    bool is_it = (size_t)(end - line) >= length && strncasecmp(line, name, length) == 0;
    return is_it ? line + length : NULL;
}

/* Decimal digits with blanks around. A number above the body bound stays above it, however many digits follow. */
static bool read_length(const char *from, const char *end, size_t *length)
{
    while (from < end && is_blank(*from))
        from++;
    while (from < end && is_blank(end[-1]))
        end--;
    bool valid = from < end;
    for (*length = 0; from < end && valid; from++) {
        valid = is_digit(*from);
        if (*length <= ANSWER_BODY_BYTES_MAX)
            *length = *length * 10 + (size_t)(*from - '0');
    }
    return valid;
}

/* Reads what the head in [head, end), whole lines, says of the answer and of its end. Returns the fault, or NULL. */
static const char *read_head(const char *head, const char *end, struct answer *answer, bool *has_length, size_t *length)
{
    /* "HTTP/1.1 200 OK", the reason optional */
    if (end - head < (ptrdiff_t)sizeof "HTTP/1.1 200\r" || !is_digit(head[7]) || head[8] != ' ' || !is_digit(head[9]) ||
        !is_digit(head[10]) || !is_digit(head[11]) || (head[12] != ' ' && head[12] != '\r'))
        return "its status line is malformed";
    answer->status = (head[9] - '0') * 100 + (head[10] - '0') * 10 + (head[11] - '0');
    if (answer->status < 200)
        return "its status is not a final one";

    answer->from_ending = false;
    *has_length = false;
    for (const char *line = head, *next; line < end; line = next + 2) {
        next = memmem(line, (size_t)(end - line), "\r\n", 2);
        const char *value = field_value(line, next, "Content-Length:");
        if (field_value(line, next, "Transfer-Encoding:") != NULL)
            return "it has a Transfer-Encoding, which the daemon never uses";
        if (value != NULL && (*has_length || !read_length(value, next, length)))
            return "its Content-Length is malformed or given twice";
        *has_length |= value != NULL;
        answer->from_ending |= field_value(line, next, "Retry-After:") != NULL;
    }
    return NULL;
}

static enum progress broken(const char **fault, const char *why)
{
    *fault = why;
    return BROKEN;
}

/* Looks at what has arrived; `ended`: no more can come, which before the answer's end is CUT. BROKEN sets `fault`. */
enum progress read_answer(const char *bytes, size_t length, bool ended, struct answer *answer, const char **fault)
{
    static const char START[] = "HTTP/1.";
    if (memcmp(bytes, START, length < sizeof START - 1 ? length : sizeof START - 1) != 0)
        return broken(fault, "it is not HTTP/1");

    const char *blank_line = memmem(bytes, length, "\r\n\r\n", 4);
    size_t head_length = blank_line == NULL ? length : (size_t)(blank_line - bytes) + 4;
    if (head_length > ANSWER_HEAD_BYTES_MAX)
        return broken(fault, "its head is longer than 16 KiB");
    if (blank_line == NULL)
        return ended ? CUT : INCOMPLETE;

    bool has_length = false;
    size_t body_length = 0;
    const char *head_fault = read_head(bytes, blank_line + 2, answer, &has_length, &body_length);
    if (head_fault != NULL)
        return broken(fault, head_fault);

    size_t arrived = length - head_length;
    if (!has_length)
        body_length = arrived; /* the body ends with the connection */
    if (body_length > ANSWER_BODY_BYTES_MAX)
        return broken(fault, "its body is longer than 1 MiB");
    answer->body = bytes + head_length;
    answer->body_length = body_length;
    if (has_length ? arrived >= body_length : ended)
        return COMPLETE;
    return ended ? CUT : INCOMPLETE;
}
