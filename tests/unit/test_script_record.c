/* Records: every line is one strict JSON object with the fields that belong to its command. */
#include "language.h"
#include "out/record.h"

#include <cjson/cJSON.h>

#include "base/utf8.h"
#include "run/run.h"
#include "session/unit.h"
#include "syntax/read_unit.h"
#include "test.h"

/* The records of a script. */
typedef struct run {
    session s;
    sink out;
    cJSON *records[64];
    int n;
} run;

/* cJSON accepts texts that are no JSON: control characters, bytes that are not UTF-8. */
static bool is_strict(const char *line, size_t n)
{
    for (size_t i = 0; i < n;) {
        bool ok;
        i += utf8_length(line + i, n - i, &ok);
        if (!ok)
            return false;
    }
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < 0x20)
            return false;
    return true;
}

static void begin(run *r, const char *name, const char *script, size_t n, bool keep_going)
{
    kv_err e = {0};
    unit *u = NULL;
    *r = (run){.n = 0};
    language_init();
    session_init(&r->s);
    r->s.out.recorder.on = r->s.out.quiet = true;
    r->s.keep_going = keep_going;
    r->out.kind = SINK_TAKES;
    sink_push(&r->s, &r->out);
    if (unit_read(&r->s, &u, name, mem_text(script, n, &e), n, 1, NULL, &e) == KV_OK)
        unit_run(&r->s, u, &e);
    if (e.code)
        report_error(&r->s, &e);
    const char *line = buf_text(&r->out.text), *end = line + r->out.text.len;
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line)), *rest = NULL;
        CHECK(newline && is_strict(line, (size_t)(newline - line)));
        cJSON *object = cJSON_ParseWithLengthOpts(line, (size_t)(newline - line) + 1, &rest, false);
        CHECK(cJSON_IsObject(object) && rest == newline);
        CHECK(r->n < 64);
        r->records[r->n++] = object;
        line = newline + 1;
    }
}

static void end(run *r)
{
    for (int i = 0; i < r->n; i++)
        cJSON_Delete(r->records[i]);
    sink_pop(&r->s, &r->out);
    buf_release(&r->out.text);
    session_release(&r->s);
}

#define RUN(r, script, keep_going) begin(r, "s.kv", script, strlen(script), keep_going)

/* A member of record i; a dotted path goes deeper, a number into a list. */
static const cJSON *at(const run *r, int i, const char *path)
{
    const cJSON *v = i < r->n ? r->records[i] : NULL;
    char part[64];
    while (v && *path) {
        size_t n = strcspn(path, ".");
        memcpy(part, path, n);
        part[n] = '\0';
        v = cJSON_IsArray(v) ? cJSON_GetArrayItem(v, part[0] - '0')
                             : cJSON_GetObjectItemCaseSensitive(v, part);
        path += n + (path[n] == '.');
    }
    return v;
}

static void check_text(const run *r, int i, const char *path, const char *text)
{
    const cJSON *v = at(r, i, path);
    CHECK(cJSON_IsString(v));
    CHECK_TEXT(cJSON_GetStringValue(v), text);
}

static void check_json(const run *r, int i, const char *path, const char *json)
{
    char *got = cJSON_PrintUnformatted(at(r, i, path));
    CHECK_TEXT(got ? got : "(none)", json);
    cJSON_free(got);
}

TEST(script_record_of_values)
{
    static const struct {
        const char *expr, *json;
    } cases[] = {
        {"none", "null"},                             {"(1 < 2)", "true"},
        {"-7", "-7"},                                 {"9007199254740992", "9007199254740992"},
        {"9007199254740993", "\"9007199254740993\""}, {"0.1 + 0.2", "0.30000000000000004"},
        {"-inf", "\"-inf\""},                         {"nan", "\"nan\""},
        {"\"a\\n\\x1b\\\"\\\\\"", "\"a\\n\\u001b\\\"\\\\\""},
        {"gpu(1)", "\"gpu(1)\""},           {"(2, 3)", "[2,3]"},
        {"[1, 0.5]", "{\"list\":[1,0.5]}"}, {"[]", "{\"list\":[]}"},
        {"array([0.1, 1/3, inf, nan])",
         "{\"dtype\":\"float32\",\"shape\":[4],\"ctx\":\"cpu(0)\",\"stype\":\"default\","
         "\"data\":[0.1,0.33333334,\"inf\",\"nan\"]}"},
        {"zeros(0, 3)", "{\"dtype\":\"float32\",\"shape\":[0,3],\"ctx\":\"cpu(0)\","
                        "\"stype\":\"default\",\"data\":[]}"},
        {"full((), 5, dtype=\"int64\")", "{\"dtype\":\"int64\",\"shape\":[],\"ctx\":\"cpu(0)\","
                                         "\"stype\":\"default\",\"data\":5}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r;
        RUN(&r, cases[i].expr, false);
        CHECK_INT(r.n, 1);
        check_text(&r, 0, "cmd", "expr");
        char *got = cJSON_PrintUnformatted(at(&r, 0, "value"));
        CHECK(got != NULL);
        /* cJSON prints doubles in its own way: compare what was written */
        CHECK(strstr(buf_text(&r.out.text), cases[i].json) != NULL);
        cJSON_free(got);
        end(&r);
    }
}

TEST(script_record_of_hostile_texts_is_json)
{
    static const char script[] = "print \"quote \\\" back \\\\ tab \\t bell \\x07 esc \\x1b\"\n"
                                 "print env(\"HOSTILE\")\n"
                                 "init \"k\\\"\\\\\\n\\x01\" 1\n"
                                 "list\n"
                                 "pull \"nobody\xc3\xa9\\x02\"\n"
                                 "pull * \n"
                                 "print @(\"no\\\"such\\nfile\" + env(\"HOSTILE\") + \".csv\")\n"
                                 "\"\xf0\x9f\x98\x80\"\n";
    run r;
    /* the texts of a script are UTF-8, others are what they are */
    setenv("HOSTILE", "\xff\xfe \xc3( \xed\xa0\x80 \xe2\x82", 1);
    begin(&r, "dir\xff/a\"b\n.kv", script, sizeof script - 1, true);
    CHECK_INT(r.n, 8);
    check_text(&r, 0, "file", "dir\xEF\xBF\xBD/a\"b\n.kv");
    unsetenv("HOSTILE");
    check_text(&r, 0, "out.0", "quote \" back \\ tab \t bell \\x07 esc \\x1b");
    check_json(&r, 3, "entries.0.key", "\"k\\\"\\\\\\n\\u0001\"");
    check_text(&r, 4, "error.code", "key");
    check_text(&r, 6, "error.code", "io");
    check_text(&r, 7, "value", "\xf0\x9f\x98\x80");
    end(&r);
}
