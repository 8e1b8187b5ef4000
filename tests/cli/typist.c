/* Types and pastes texts at the prompt of a program in a terminal, as a person does, and says of
 * each whether the prompt came back.
 *
 *     typist HOW SECONDS PROGRAM ARG... <TEXTS
 *
 * HOW is keys: key by key, waiting for what each key draws; lines: pasted by a terminal that knows
 * no brackets; or paste: in brackets, and Enter. A line that holds nothing but a form feed ends
 * each of TEXTS. Behind each text Ctrl-C drops what it left open, and the prompt must answer a sum
 * within SECONDS. The verdicts are TAP; a text that ends the program is followed by a new one. */
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What the program has written since the last text began. */
static char screen[1 << 20];
static size_t shown;
static int terminal = -1;
static pid_t child;
static char **program;

static long long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads what comes within some milliseconds. Returns false when the program has ended. */
static bool look(int ms)
{
    struct pollfd in = {.fd = terminal, .events = POLLIN};
    if (poll(&in, 1, ms) <= 0)
        return true;
    if (shown > sizeof screen / 2) { /* only the newest is looked at */
        memmove(screen, screen + shown - 65536, 65536);
        shown = 65536;
    }
    ssize_t n = read(terminal, screen + shown, sizeof screen - 1 - shown);
    if (n <= 0)
        return false;
    shown += (size_t)n;
    screen[shown] = '\0';
    return true;
}

static void end(void)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(terminal);
}

/* Sends n bytes. A terminal that is full of what nobody reads takes no more: that is a hang. */
static bool send_keys(const char *keys, size_t n, long long until)
{
    while (n > 0) {
        struct pollfd out = {.fd = terminal, .events = POLLIN | POLLOUT};
        if (now_ms() > until || poll(&out, 1, 1000) < 0)
            return false;
        if ((out.revents & POLLIN) && !look(0))
            return false;
        if (!(out.revents & POLLOUT))
            continue;
        ssize_t done = write(terminal, keys, n < 512 ? n : 512);
        if (done <= 0)
            return false;
        keys += done;
        n -= (size_t)done;
    }
    return true;
}

static bool waits_for(const char *what, long long until)
{
    while (!strstr(screen, what)) {
        if (now_ms() > until || !look(50))
            return false;
        if (memchr(screen, '\0', shown)) /* programs may print it */
            for (size_t i = 0; i < shown; i++)
                screen[i] = screen[i] ? screen[i] : ' ';
    }
    return true;
}

static void begin(void)
{
    struct winsize size = {.ws_row = 40, .ws_col = 120};
    child = forkpty(&terminal, NULL, NULL, &size);
    if (child == 0) {
        execvp(program[0], program);
        _exit(127);
    }
    shown = 0;
    screen[0] = '\0';
    if (!waits_for("kv> ", now_ms() + 10000))
        fprintf(stderr, "typist: no prompt came\n");
}

/* A key, and what it draws: the first of it comes within some milliseconds, and then the rest. */
static bool type_key(char key, long long until)
{
    size_t before = shown, last;
    if (!send_keys(&key, 1, until))
        return false;
    for (int waited = 0; shown == before && waited < 5; waited++)
        if (!look(1))
            return false;
    do {
        last = shown;
        if (!look(1))
            return false;
    } while (shown != last && now_ms() < until);
    return true;
}

static bool give(const char *how, const char *text, size_t n, long long until)
{
    bool ok = true;
    if (strcmp(how, "paste") == 0) {
        ok = send_keys("\033[200~", 6, until);
        for (size_t i = 0; i < n && ok; i++)
            ok = send_keys(text[i] == '\n' ? "\r" : text + i, 1, until);
        /* Enter comes later, after what the paste draws. */
        return ok && send_keys("\033[201~", 6, until) && look(100) && look(10) &&
               send_keys("\r", 1, until);
    }
    for (size_t i = 0; i < n && ok; i++) {
        char key = text[i] == '\n' ? '\r' : text[i];
        ok = strcmp(how, "keys") == 0 ? type_key(key, until) : send_keys(&key, 1, until);
    }
    return ok;
}

static void show_text(const char *text, size_t n)
{
    printf("# ");
    for (size_t i = 0; i < n; i++)
        printf(text[i] == '\n' && i + 1 < n ? "\n# " : "%c", text[i]);
    printf("\n# the end of the screen: ");
    for (size_t i = shown > 300 ? shown - 300 : 0; i < shown; i++)
        printf(screen[i] < ' ' && screen[i] >= 0 ? "." : "%c", screen[i]);
    printf("\n");
}

/* Whether the prompt answers a sum. What is typed while something runs is lost with the Ctrl-C that
 * ends it, so it is asked again. */
static bool answers(int number, long long until)
{
    char sum[64], answer[32];
    snprintf(sum, sizeof sum, "print \"<\" + f\"{%d + 0}\" + \">\"\r", 700000 + number);
    snprintf(answer, sizeof answer, "<%d>", 700000 + number);
    for (int ms = 100; now_ms() < until; ms *= 2) {
        if (!send_keys("\003", 1, until) || !look(ms) || !look(10) ||
            !send_keys(sum, strlen(sum), until))
            return false;
        if (waits_for(answer, now_ms() + 10 * ms))
            return true;
    }
    return false;
}

/* Gives one text to the program. The sum tells the texts apart. */
static bool try(const char *how, int seconds, const char *text, size_t n, int number)
{
    int status;
    long long until = now_ms() + 1000LL * seconds;
    shown = 0;
    screen[0] = '\0';
    if (give(how, text, n, until) && look(20) && answers(number, until))
        return true;
    usleep(10000);
    bool left = waitpid(child, &status, WNOHANG) == child;
    bool ok = left && WIFEXITED(status) && (strstr(text, "quit") || strstr(text, "exit"));
    if (!ok)
        show_text(text, n);
    if (left)
        close(terminal);
    else
        end();
    begin();
    return ok;
}

int main(int argc, char **argv)
{
    static char all[1 << 20];
    size_t n = fread(all, 1, sizeof all - 1, stdin);
    int number = 0, failed = 0;
    if (argc < 4)
        return 2;
    program = argv + 3;
    signal(SIGPIPE, SIG_IGN);
    begin();
    for (char *text = all, *stop; text < all + n; text = stop + 2) {
        if (!(stop = strstr(text, "\f\n")))
            break;
        *stop = '\0';
        bool ok = try(argv[1], atoi(argv[2]), text, (size_t)(stop - text), ++number);
        failed += !ok;
        printf("%sok %d - %s\n", ok ? "" : "not ", number, argv[1]);
        fflush(stdout);
    }
    end();
    printf("1..%d\n", number);
    return failed > 0;
}
