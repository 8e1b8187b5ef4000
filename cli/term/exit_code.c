/* Exit codes of errors. */
#include "term/exit_code.h"

exit_code exit_code_of_error(int code)
{
    switch ((kv_code)code) {
    case KV_OK:
        return EXIT_DONE;
    case KV_E_ASSERT:
    case KV_E_EXPECT:
        return EXIT_NO;
    case KV_E_SYNTAX:
    case KV_E_USAGE:
        return EXIT_NOT_UNDERSTOOD;
    case KV_E_NAME:
    case KV_E_KEY:
    case KV_E_SHAPE:
    case KV_E_DTYPE:
    case KV_E_VALUE:
    case KV_E_INDEX:
    case KV_E_MEMORY:
        return EXIT_FAILED;
    case KV_E_UNSUPPORTED:
        return EXIT_UNSUPPORTED;
    case KV_E_IO:
    case KV_E_FORMAT:
        return EXIT_IO;
    case KV_E_BUSY:
    case KV_E_TIMEOUT:
    case KV_E_PEER:
        return EXIT_PEER;
    case KV_E_INTERRUPTED:
        return EXIT_SIGINT;
    case KV_E_INTERNAL:
    case KV_NCODES:
        break;
    }
    return EXIT_BUG;
}
