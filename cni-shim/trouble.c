/* A CNI error: noted where it happens, written as JSON where it is printed. */
#include "shim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* An error object has the same shape in every version of CNI; this is the one the shim speaks by itself. */
static const char ERROR_CNI_VERSION[] = "1.0.0";

bool fail(struct trouble *trouble, enum cni_code code, const char *details, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    trouble->code = code;
    (void)vsnprintf(trouble->message, sizeof trouble->message, format, arguments);
    (void)snprintf(trouble->details, sizeof trouble->details, "%s", details);
    va_end(arguments);
    return false;
}

void put_error(struct text *text, const struct trouble *trouble)
{
    char head[64];
    (void)snprintf(head, sizeof head, "{\"cniVersion\":\"%s\",\"code\":%d,\"msg\":", ERROR_CNI_VERSION, (int)trouble->code);
    put(text, head);
    put_json_string(text, trouble->message, strlen(trouble->message));
    put(text, ",\"details\":");
    put_json_string(text, trouble->details, strlen(trouble->details));
    put(text, "}\n");
}
