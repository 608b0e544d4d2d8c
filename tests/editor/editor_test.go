// Package editor_test holds what people see in an editor: it asks CUE's own language
// server about the sites that Slipway ships and begins.
package editor_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// In the site that is shipped and in one that `slipway init` writes, the fields of
// each kind of entry are explained where they stand, and offered where one begins.
func TestHoverAndCompletion(t *testing.T) {
	bin := build(t)
	for name, c := range map[string]struct {
		begin func(dir string) *exec.Cmd
		says  map[string]string // by "file: line: field", what its explanation begins with
		at    string            // "file: line", behind which a field is begun
	}{
		"shipped": {
			func(dir string) *exec.Cmd { return exec.Command("cp", "-r", "../../site-example/.", dir) },
			map[string]string{
				`rack-1.cue: rack: "r1": rack`:                           "The rack the node is in",
				`rack-3.cue: addresses: {bmc: addresses`:                 "",
				`profiles.cue: 	power: "on": power`:                      "",
				`profiles.cue: window: "night": window`:                  "",
				`networks.cue: cidr:        "10.30.0.0/16": cidr`:        "",
				`networks.cue: trunk:  true: trunk`:                      "",
				`site.cue: maxUnavailable: "25%": maxUnavailable`:        "How many nodes may be out of service at once",
				`site.cue: windows: night: schema.#Window & {cron: cron`: "",
				`site.cue: r1: schema.#Rack & {location: location`:       "",
			}, `rack-1.cue: rack: "r1"`,
		},
		"begun": {
			func(dir string) *exec.Cmd {
				return exec.Command(filepath.Join(bin, "slipway"), "init", dir, "--name", "berlin")
			},
			map[string]string{
				`rack-1.cue: rack: "r1": rack`:                           "The rack the node is in",
				`profiles.cue: primaryNetwork: "os": primaryNetwork`:     "",
				`profiles.cue: sockets:      1: sockets`:                 "",
				`networks.cue: cidr:        "192.0.2.0/24": cidr`:        "",
				`networks.cue: networks: ["os"]: networks`:               "",
				`site.cue: roles: server: schema.#Role & {: description`: "",
			}, `rack-1.cue: rack: "r1"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "berlin")
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			run(t, c.begin(dir))
			run(t, exec.Command(filepath.Join(bin, "slipway"), "schema", "vendor", dir))
			e := open(t, filepath.Join(bin, "cue"), dir)
			for where, begins := range c.says {
				parts := strings.SplitN(where, ": ", 2)
				i := strings.LastIndex(parts[1], ": ")
				if text := e.hover(parts[0], parts[1][:i], parts[1][i+2:]); !strings.HasPrefix(text, begins) || text == "" {
					t.Errorf("%s: it says %q, want %q", where, text, begins)
				}
			}
			file, line, _ := strings.Cut(c.at, ": ")
			offered := e.complete(file, line, "po")
			for _, field := range []string{"power", "boot", "image", "generation"} {
				if !offered[field] {
					t.Errorf("%s is not offered behind %s, only %v", field, line, offered)
				}
			}
		})
	}
}

// build makes slipway and the cue command.
func build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	run(t, exec.Command("go", "build", "-o", dir, "../../cmd/slipway", "cuelang.org/go/cmd/cue"))
	return dir
}

func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// editor is an editor's half of the language server protocol (version 3.17).
type editor struct {
	t    *testing.T
	dir  string
	in   io.Writer
	out  *bufio.Reader
	last int // id of a request
}

func open(t *testing.T, cue, dir string) *editor {
	t.Helper()
	cmd := exec.Command(cue, "lsp")
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended if that fails
		_ = cmd.Wait()         // and says that it was killed
	})
	e := &editor{t: t, dir: dir, in: in, out: bufio.NewReader(out)}
	e.ask("initialize", map[string]any{
		"processId": nil, "rootUri": e.uri(""), "workspaceFolders": []any{map[string]any{"uri": e.uri(""), "name": "site"}},
		"capabilities": map[string]any{"textDocument": map[string]any{"hover": map[string]any{"contentFormat": []string{"markdown"}}}},
	}, nil)
	e.send(map[string]any{"method": "initialized", "params": map[string]any{}})
	return e
}

func (e *editor) uri(file string) string { return "file://" + filepath.Join(e.dir, file) }

func (e *editor) text(file string) string {
	e.t.Helper()
	text, err := os.ReadFile(filepath.Join(e.dir, file))
	if err != nil {
		e.t.Fatal(err)
	}
	return string(text)
}

// show opens a file with some text in it.
func (e *editor) show(file, text string) {
	e.t.Helper()
	e.send(map[string]any{"method": "textDocument/didOpen", "params": map[string]any{
		"textDocument": map[string]any{"uri": e.uri(file), "languageId": "cue", "version": 1, "text": text}}})
}

func (e *editor) hide(file string) {
	e.t.Helper()
	e.send(map[string]any{"method": "textDocument/didClose", "params": map[string]any{"textDocument": map[string]any{"uri": e.uri(file)}}})
}

// at is the place of a field on or behind a line that has some words.
func (e *editor) at(file, text, words, field string) map[string]any {
	e.t.Helper()
	from := strings.Index(text, words)
	if from < 0 {
		e.t.Fatalf("%s has no %q", file, words)
	}
	from += max(0, strings.Index(text[from:], field))
	before := text[:from]
	return map[string]any{"textDocument": map[string]any{"uri": e.uri(file)},
		"position": map[string]any{"line": strings.Count(before, "\n"), "character": len(before) - strings.LastIndex(before, "\n")}}
}

// hover is what is said of a field.
func (e *editor) hover(file, words, field string) string {
	e.t.Helper()
	text := e.text(file)
	e.show(file, text)
	defer e.hide(file)
	var says struct{ Contents struct{ Value string } }
	e.ask("textDocument/hover", e.at(file, text, words, field), &says)
	return says.Contents.Value
}

// complete is what is offered where a field is begun behind a line that has some words.
func (e *editor) complete(file, words, begun string) map[string]bool {
	e.t.Helper()
	before, after, _ := strings.Cut(e.text(file), words)
	line, after, _ := strings.Cut(after, "\n")
	text := before + words + line + "\n\t\t" + begun + "\n" + after
	e.show(file, text)
	defer e.hide(file)
	var offers struct{ Items []struct{ Label string } }
	e.ask("textDocument/completion", e.at(file, text, "\t\t"+begun+"\n", begun), &offers)
	all := map[string]bool{}
	for _, i := range offers.Items {
		all[strings.TrimRight(i.Label, "?!: ")] = true
	}
	return all
}

func (e *editor) send(m map[string]any) {
	e.t.Helper()
	m["jsonrpc"] = "2.0"
	text, err := json.Marshal(m)
	if err == nil {
		_, err = fmt.Fprintf(e.in, "Content-Length: %d\r\n\r\n%s", len(text), text)
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

type message struct {
	ID     json.RawMessage
	Method string
	Params struct{ Items []any }
	Result json.RawMessage
	Error  json.RawMessage
}

func (e *editor) receive() (m message) {
	e.t.Helper()
	head, err := textproto.NewReader(e.out).ReadMIMEHeader()
	if err != nil {
		e.t.Fatal(err)
	}
	n, err := strconv.Atoi(head.Get("Content-Length"))
	if err != nil {
		e.t.Fatal(err)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(e.out, text); err != nil {
		e.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		e.t.Fatal(err)
	}
	return m
}

// ask sends a request and waits for its answer; what the server asks meanwhile is
// answered with nothing.
func (e *editor) ask(method string, params, into any) {
	e.t.Helper()
	e.last++
	e.send(map[string]any{"id": e.last, "method": method, "params": params})
	for {
		m := e.receive()
		switch {
		case m.Method != "" && m.ID != nil:
			e.send(map[string]any{"id": m.ID, "result": make([]any, len(m.Params.Items))})
		case m.Method == "" && string(m.ID) == strconv.Itoa(e.last):
			if m.Error != nil {
				e.t.Fatalf("%s: %s", method, m.Error)
			}
			if into == nil {
				return
			}
			if err := json.Unmarshal(m.Result, into); err != nil {
				e.t.Fatal(err)
			}
			return
		}
	}
}
