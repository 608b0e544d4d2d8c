package pkcs11

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain plays a hostile program where a test has named this binary as the program.
func TestMain(m *testing.M) {
	if script := os.Getenv("HOSTILE"); script != "" {
		play(script)
	}
	code := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// play is a program that does what a script says, step by step: "read" reads a line, "say X" prints a line, "part X"
// prints without a line, "file P" prints a file, "flood" prints without end, "shut" closes the output, "hang" and "exit N" end it, and "crash"
// kills it. What it has read is appended to the file that HEARD names.
func play(script string) {
	in := bufio.NewReader(os.Stdin)
	for step := range strings.SplitSeq(script, ";") {
		do, what, _ := strings.Cut(step, " ")
		switch do {
		case "read":
			line, _ := in.ReadString('\n')
			f, err := os.OpenFile(os.Getenv("HEARD"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				os.Exit(9)
			}
			fmt.Fprint(f, line)
			f.Close()
		case "say":
			fmt.Println(what)
		case "part":
			fmt.Print(what)
		case "file":
			text, err := os.ReadFile(what)
			if err != nil {
				os.Exit(9)
			}
			os.Stdout.Write(text)
		case "flood":
			for {
				if _, err := io.WriteString(os.Stdout, strings.Repeat("x", 1<<16)); err != nil {
					os.Exit(0)
				}
			}
		case "shut":
			os.Stdout.Close()
		case "hang":
			<-time.After(time.Hour)
		case "exit":
			os.Exit(int(what[0] - '0'))
		case "crash":
			p, _ := os.FindProcess(os.Getpid())
			_ = p.Kill()
			<-time.After(time.Hour)
		}
	}
	os.Exit(0)
}

const (
	wantsPIN = `read;say {"login":{"serial":"S1","label":"L"}};read;`
	tookPIN  = wantsPIN + `say {"accepted":true};`
)

// The program is foreign code's: whatever it does is a sentence, within the time, and sends no PIN twice.
func TestHostilePrograms(t *testing.T) {
	defer func(was time.Duration) { patience = was }(patience)
	h := newHost(t)
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h.runs, h.module = me, libm(t)
	block := sealedToNothing(t, h.settings())
	for name, c := range map[string]struct {
		script, want string
		noted        bool // the PIN may have counted
	}{
		"says nothing":       {"read;hang", "libm.so.6 has not answered for 500ms", false},
		"never reads":        {"hang", "has not answered for 500ms", false},
		"closes and hangs":   {"read;shut;hang", "its program ended without an answer", false},
		"ends at once":       {"exit 0", "its program ended without an answer", false},
		"fails":              {"read;exit 2", "crashed (exit status 2)", false},
		"is killed":          {"read;crash", "crashed (signal: killed)", false},
		"half a line":        {`read;part {"secret":`, "does not answer as slipway-pkcs11 does", false},
		"no JSON":            {"read;say OK", "does not answer as slipway-pkcs11 does", false},
		"other fields":       {`read;say {"x":1}`, "does not answer as slipway-pkcs11 does", false},
		"two values":         {`read;say {"secret":"AAAA"} {}`, "does not answer as slipway-pkcs11 does", false},
		"nothing":            {"read;say {}", "does not answer as slipway-pkcs11 does", false},
		"no secret":          {`read;say {"secret":""}`, "does not answer as slipway-pkcs11 does", false},
		"what nobody asked":  {`read;say {"found":{"token":{"serial":"S1","label":""},"key":{}}}`, "does not answer as slipway-pkcs11 does", false},
		"without end":        {"read;flood", "does not answer as slipway-pkcs11 does", false},
		"another token":      {`read;say {"login":{"serial":"S2","label":"L"}};read`, "does not answer as slipway-pkcs11 does", false},
		"unknown trouble":    {`read;say {"trouble":{"kind":"tired"}}`, "does not answer as slipway-pkcs11 does", false},
		"odd texts":          {`read;say {"trouble":{"kind":"not-loaded","text":"\u001b[2Jx\ny"}}`, "cannot be loaded: ?[2Jx?y: install", false},
		"many tokens":        {`read;say {"trouble":{"kind":"no-token","tokens":[{"serial":"\u0007","label":"` + strings.Repeat("a", 3000) + `"}]}}`, "aaa…\" (serial number ?)", false},
		"locked":             {`read;say {"trouble":{"kind":"pin-locked"}}`, "the PIN of the token is locked after wrong attempts: unlock it with the vendor's tool", false},
		"last attempt":       {`read;say {"trouble":{"kind":"last-attempt"}}`, "no PIN was sent, because another wrong one would lock the token", false},
		"no PIN set":         {`read;say {"trouble":{"kind":"no-pin"}}`, "the token has no PIN for users yet", false},
		"PIN pad":            {`read;say {"trouble":{"kind":"pin-pad"}}`, "typed on its own keys", false},
		"wrong PIN":          {wantsPIN + `say {"trouble":{"kind":"wrong-pin"}}`, "the token refused the PIN. Slipway does not send this PIN to the token \"L\" (serial number S1) again", true},
		"locked now":         {wantsPIN + `say {"trouble":{"kind":"pin-locked"}}`, "the PIN of the token is locked", true},
		"device fails":       {wantsPIN + `say {"trouble":{"kind":"refused","call":"C_Login","code":48}}`, "the module refused C_Login (CKR_DEVICE_ERROR)", false},
		"token is away":      {wantsPIN + `say {"trouble":{"kind":"refused","call":"C_Login","code":224}}`, "the module refused C_Login (CKR_TOKEN_NOT_PRESENT)", false},
		"fails somehow":      {wantsPIN + `say {"trouble":{"kind":"refused","call":"C_Login","code":5}}`, "the module refused C_Login (CKR_GENERAL_ERROR). Slipway does not send this PIN", true},
		"a code of its own":  {wantsPIN + `say {"trouble":{"kind":"refused","call":"C_Login","code":2147483649}}`, "the module refused C_Login (CKR 0x80000001). Slipway does not send this PIN", true},
		"an invalid PIN":     {wantsPIN + `say {"trouble":{"kind":"refused","call":"C_Login","code":161}}`, "the module refused C_Login (CKR_PIN_INVALID). Slipway does not send this PIN", true},
		"hangs with the PIN": {wantsPIN + "hang", "has not answered for 4s: its program was ended. Slipway does not send this PIN", true},
		"crashes with it":    {wantsPIN + "crash", "crashed (signal: killed): its program ended without an answer. Slipway does not send this PIN", true},
		"answers badly":      {wantsPIN + "say OK", "does not answer as slipway-pkcs11 does. Slipway does not send this PIN", true},
		"skips the PIN":      {wantsPIN + `say {"secret":"AAAA"}`, "does not answer as slipway-pkcs11 does", true},
		"asks twice":         {tookPIN + `say {"login":{"serial":"S1","label":"L"}};read`, "does not answer as slipway-pkcs11 does", false},
		"hangs after it":     {tookPIN + "hang", "has not answered for 4s", false},
		"a wrong secret":     {tookPIN + `say {"secret":"AAAA"}`, "the sealed secret is damaged, or the key", false},
		"refuses to open":    {tookPIN + `say {"trouble":{"kind":"refused","call":"C_Decrypt","code":64}}`, "the module refused C_Decrypt (CKR_ENCRYPTED_DATA_INVALID)", false},
	} {
		patience = 20 * time.Second
		switch {
		case strings.Contains(c.script, "login") && strings.Contains(c.script, "hang"):
			patience = 4 * time.Second // it has to come to the PIN, also on a busy host
		case strings.Contains(c.script, "hang"):
			patience = 500 * time.Millisecond
		}
		heard := filepath.Join(t.TempDir(), "heard")
		h.lines = []string{"environment: HOSTILE=" + c.script, "environment: HEARD=" + heard}
		if err := os.RemoveAll(notePath(h.file(), Token{Serial: "S1"})); err != nil {
			t.Fatal(err)
		}
		h.want(name, h.opens(block), c.want)
		if sent := pins(t, heard); sent != strings.Count(c.script, "login") && sent > 1 || sent == 1 && !strings.Contains(c.script, "label") {
			t.Errorf("%s: the PIN was sent %d times", name, sent)
		}
		before := pins(t, heard)
		why := h.opens(block)
		if again := pins(t, heard) - before; c.noted && (again > 0 || !strings.Contains(why, "no PIN was sent, because the token did not accept this one before")) {
			t.Errorf("%s: the PIN was sent again %d times: %s", name, again, why)
		}
	}
}

// pins counts how often the program has got the PIN.
func pins(t *testing.T, heard string) int {
	t.Helper()
	b, err := os.ReadFile(heard)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(b), `"pin":`)
}

// sealedToNothing is a secret that no token opens.
func sealedToNothing(t *testing.T, settings string) []byte {
	t.Helper()
	s := sealed{bound: bound{Identity, Token{"S1", "L"}, Key{Label: "k"}, Wrapped{OAEPSHA256, []byte("x")}}, Text: make([]byte, 64)}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return encode(text, settings)
}

// A module is foreign code: one that prints, crashes, hangs or ends its process spoils nothing but its own answer.
func TestHostileModules(t *testing.T) {
	defer func(was time.Duration) { patience = was }(patience)
	h := newHost(t)
	h.token("site")
	h.key("site", "k", "EC:prime256v1", "--usage-derive")
	text := h.seal("site", "k")
	// A module that prints and then does all that SoftHSM does.
	h.module = library(t, h, `#include <stdio.h>
#include <dlfcn.h>
__attribute__((constructor)) static void hello(void) { printf("{\"secret\":\"AAAA\"}\n"); fflush(stdout); fprintf(stderr, "loaded\n"); }
unsigned long C_GetFunctionList(void *list) {
	puts("hello"); fflush(stdout);
	unsigned long (*real)(void *) = dlsym(dlopen("`+softHSM+`", RTLD_NOW), "C_GetFunctionList");
	return real(list);
}`)
	h.want("prints", h.opens(text), "")
	for name, c := range map[string]struct {
		source, want string
		patience     time.Duration
	}{
		"crashes when loaded": {`__attribute__((constructor)) static void f(void) { *(volatile int *)0 = 1; }`, "crashed (", 20 * time.Second},
		"ends its process":    {"#include <stdlib.h>\nunsigned long C_GetFunctionList(void *list) { exit(0); }", "its program ended without an answer", 20 * time.Second},
		"crashes":             {`unsigned long C_GetFunctionList(void *list) { return *(volatile int *)8; }`, "crashed (", 20 * time.Second},
		"fails":               {`unsigned long C_GetFunctionList(void *list) { return 5; }`, "is not a PKCS#11 module", 20 * time.Second},
		"gives no list":       {`unsigned long C_GetFunctionList(void **list) { *list = 0; return 0; }`, "is not a PKCS#11 module", 20 * time.Second},
		"hangs":               {"#include <unistd.h>\nunsigned long C_GetFunctionList(void *list) { for (;;) pause(); }", "has not answered for 1s", time.Second},
	} {
		patience = c.patience
		h.module = library(t, h, c.source)
		h.want(name, h.opens(text), c.want)
	}
}

// A token says when its PIN is locked or one attempt is left, and then it gets none. What the module says of a login
// decides whether the PIN is sent again.
func TestTokensThatRefuse(t *testing.T) {
	h := newHost(t)
	h.token("site")
	h.key("site", "k", "EC:prime256v1", "--usage-derive")
	text := h.seal("site", "k")
	tried := filepath.Join(t.TempDir(), "tried")
	for name, c := range map[string]struct {
		flags, clear, login string
		want                string
		tried, again        int
	}{
		"last attempt":  {"0x20000", "0", "0", "no PIN was sent, because another wrong one would lock the token", 0, 0},
		"locked":        {"0x60000", "0", "0", "the PIN of the token is locked", 0, 0},
		"no PIN":        {"0", "0x8", "0", "the token has no PIN for users yet", 0, 0},
		"PIN pad":       {"0x100", "0", "0", "typed on its own keys", 0, 0},
		"few attempts":  {"0x10000", "0", "0xa0", "the token refused the PIN", 1, 0},
		"locks now":     {"0", "0", "0xa4", "the PIN of the token is locked", 1, 0},
		"fails somehow": {"0", "0", "0x6", "the module refused C_Login (CKR_FUNCTION_FAILED). Slipway does not send this PIN", 1, 0},
		"device broken": {"0", "0", "0x30", "the module refused C_Login (CKR_DEVICE_ERROR)", 1, 1},
		"logged in":     {"0", "0", "0x100", "", 1, 1},
		"no login":      {"0", "0x4", "0", "the token has no private key of this name", 0, 0}, // SoftHSM shows it after a login alone
	} {
		if err := os.RemoveAll(notePath(h.file(), stored(t, text).Token)); err != nil {
			t.Fatal(err)
		}
		h.module = library(t, h, `#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
static void *mine[69], **its;
static unsigned long info(unsigned long slot, char *i) {
	unsigned long rv = ((unsigned long (*)(unsigned long, char *))its[7])(slot, i);
	unsigned long *flags = (unsigned long *)(i + 96);
	*flags = (*flags | `+c.flags+`) & ~`+c.clear+`UL;
	return rv;
}
static unsigned long login(unsigned long s, unsigned long user, char *pin, unsigned long n) {
	FILE *f = fopen("`+tried+`", "a");
	fputc('x', f);
	fclose(f);
	if (`+c.login+` == 0x100) ((unsigned long (*)(unsigned long, unsigned long, char *, unsigned long))its[19])(s, user, pin, n);
	return `+c.login+`;
}
unsigned long C_GetFunctionList(void ***list) {
	unsigned long (*real)(void ***) = dlsym(dlopen("`+softHSM+`", RTLD_NOW), "C_GetFunctionList");
	unsigned long rv = real(&its);
	memcpy(mine, its, sizeof mine);
	mine[7] = info;
	mine[19] = login;
	*list = mine;
	return rv;
}`)
		for _, logins := range []int{c.tried, c.again} {
			if err := os.WriteFile(tried, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			why := h.opens(text)
			b, err := os.ReadFile(tried)
			if err != nil || len(b) != logins {
				t.Errorf("%s: %d logins, want %d: %s, %v", name, len(b), logins, why, err)
			}
			if logins == c.tried && c.tried == c.again || logins == 1 {
				h.want(name, why, c.want)
			} else {
				h.want(name, why, "no PIN was sent, because the token did not accept this one before")
			}
		}
	}
}

// library compiles a module.
func library(t *testing.T, h *host, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.so")
	cmd := exec.Command("gcc", "-shared", "-fPIC", "-x", "c", "-o", path, "-", "-ldl")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	chmod(t, path, 0o755)
	return path
}
