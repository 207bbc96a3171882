/* Strings as JSON, into a bounded text. Whatever the bytes were, the result is valid JSON in valid UTF-8. */
#include "shim.h"

#include <string.h>

static void put_bytes(struct text *text, const char *bytes, size_t length)
{
    if (length > text->capacity - text->length) {
        text->overflowed = true;
        return;
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

void put(struct text *text, const char *string)
{
    put_bytes(text, string, strlen(string));
}

/* Length of the UTF-8 character that `bytes` begins with, 0: none. RFC 3629: not overlong, no surrogate, ≤ U+10FFFF. */
size_t utf8_character(const char *bytes, size_t length, uint32_t *code_point)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t smallest;
    } forms[] = {{0x80, 0x00, 0}, {0xE0, 0xC0, 0x80}, {0xF0, 0xE0, 0x800}, {0xF8, 0xF0, 0x10000}};
    const unsigned char *byte = (const unsigned char *)bytes;

    for (size_t size = 1; size <= 4 && size <= length; size++) {
        if ((byte[0] & forms[size - 1].mask) != forms[size - 1].lead)
            continue;
        uint32_t point = byte[0] & (unsigned char)~forms[size - 1].mask;
        for (size_t i = 1; i < size; i++) {
            if ((byte[i] & 0xC0) != 0x80)
                return 0;
            point = point << 6 | (byte[i] & 0x3F);
        }
        bool valid = point >= forms[size - 1].smallest && point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF);
        *code_point = point;
        return valid ? size : 0;
    }
    return 0;
}

/* Bytes that are not UTF-8 become U+FFFD, one for one, as in Go's encoding/json: JSON cannot carry them otherwise. */
void put_json_string(struct text *text, const char *bytes, size_t length)
{
    static const char hex[] = "0123456789abcdef";
    static const char short_form[0x20] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};

    put(text, "\"");
    for (size_t i = 0; i < length;) {
        uint32_t point = 0;
        size_t size = utf8_character(bytes + i, length - i, &point);
        if (size == 0) {
            put(text, "\xEF\xBF\xBD");
            size = 1;
        } else if (point == '"' || point == '\\') {
            put_bytes(text, (const char[]){'\\', bytes[i]}, 2);
        } else if (point >= 0x20) {
            put_bytes(text, bytes + i, size);
        } else if (short_form[point] != '\0') {
            put_bytes(text, (const char[]){'\\', short_form[point]}, 2);
        } else {
            put_bytes(text, (const char[]){'\\', 'u', '0', '0', hex[point >> 4], hex[point & 0xF]}, 6);
        }
        i += size;
    }
    put(text, "\"");
}
