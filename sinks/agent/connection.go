package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// These are the bounds of one exchange.
const (
	maxAnswer = 2 * wire.MaxFrame
	maxSaid   = 4 << 10 // of text printed instead of an answer
	alive     = 5 * time.Second
	silent    = 20 * time.Second
	patience  = 5 * time.Second // with a command that answered but does not end
)

// connection is one SSH connection for commands.
type connection struct {
	*gossh.Client
	address string
	entry   sshclient.Entry // how it logged in
	end     func() bool
}

// connect logs in. When the context ends, the connection closes and everything that waits for it ends.
func connect(ctx context.Context, client *sshclient.Client) (*connection, error) {
	c, entry, err := client.Login(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{c, client.Address(), entry, context.AfterFunc(ctx, func() { c.Close() })}, nil
}

func (c *connection) Close() {
	c.end()
	c.Client.Close()
}

// watch closes the connection when the host stops answering. It runs until the context ends.
func (c *connection) watch(ctx context.Context) {
	lost := time.AfterFunc(silent, func() { c.Client.Close() })
	defer lost.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(alive):
		}
		if _, _, err := c.SendRequest("keepalive@openssh.com", true, nil); err != nil {
			return
		}
		lost.Reset(silent)
	}
}

// exchange is a command, its input, and the receivers of its output.
type exchange struct {
	script string
	// input or request is sent at once, or after accept approved the report.
	input   io.Reader
	request *wire.Request
	accept  func(report []byte) error
	tell    func(wire.Progress)
	// supply opens an artifact that the helper wants; nil if the helper gets none.
	supply func(wire.Want) (io.ReadCloser, wire.Blob)
}

// answer is the output after the report.
type answer struct {
	begun  bool         // the report is complete
	denied bool         // the account is not root and may not use sudo
	result *wire.Result // nil if no helper answered
	said   string       // text printed instead, and stderr
	lines  []string     // of said
}

// encode has the request sent as the input.
func (x *exchange) encode() error {
	if x.request == nil {
		return nil
	}
	var b bytes.Buffer
	if err := wire.Write(&b, x.request); err != nil {
		return refused("the request is too large to send: %v", err)
	}
	x.input = &b
	return nil
}

// run runs a script and reads its report, then the helper's answer. Its error is about the connection. A report
// that was read before the error is still returned.
func (c *connection) run(ctx context.Context, x exchange) (report []byte, a answer, err error) {
	if err := x.encode(); err != nil {
		return nil, a, err
	}
	session, err := c.NewSession()
	if err != nil {
		return nil, a, c.lost(ctx, err)
	}
	defer session.Close()
	var errs clipped
	session.Stderr = &errs
	stdin, err := session.StdinPipe()
	if err != nil {
		return nil, a, err
	}
	stdout, err := session.StdoutPipe()
	if err != nil {
		return nil, a, err
	}
	if err := session.Start(inShell(x.script)); err != nil {
		return nil, a, c.lost(ctx, err)
	}
	send := func() error {
		if x.input == nil {
			return nil
		}
		if err := driver.MayWrite(ctx); err != nil {
			return err
		}
		go io.Copy(stdin, x.input) // stdin stays open: closing it means a hang-up
		return nil
	}
	if x.accept == nil {
		if err := send(); err != nil {
			return nil, a, err
		}
	}
	out := bufio.NewReaderSize(io.LimitReader(stdout, maxAnswer), 64<<10)
	report, end, err := readReport(out)
	switch {
	case errors.Is(err, errTooMuch):
		return nil, a, refused("the system at %s answered with more than %d KiB", c.address, sshclient.MaxOutput>>10)
	case err != nil:
		return report, a, c.lost(ctx, err)
	case end != helperLine:
		stdin.Close()
		err = c.ended(ctx, session)
		return report, answer{begun: end != "", denied: end == deniedLine, said: errs.String()}, err
	}
	if x.accept != nil {
		if err := x.accept(report); err != nil {
			return report, a, err
		}
		if err := send(); err != nil {
			return report, a, err
		}
	}
	a, err = readAnswer(out, x, stdin)
	a.begun = true
	if err != nil {
		return report, a, c.lost(ctx, err)
	}
	stdin.Close()
	if a.result == nil {
		err = c.ended(ctx, session)
		a.said = strings.TrimSpace(a.said + "\n" + errs.String())
	}
	return report, a, err
}

// ended waits a bounded time for the command to end. The exit status does not matter: the output has everything.
func (c *connection) ended(ctx context.Context, session *gossh.Session) error {
	var status *gossh.ExitError
	late := time.AfterFunc(patience, func() { session.Close() })
	err := session.Wait()
	if inTime := late.Stop(); err != nil && inTime && !errors.As(err, &status) {
		return c.lost(ctx, err)
	}
	return nil
}

func (c *connection) lost(ctx context.Context, err error) error {
	return fmt.Errorf("%w: %w", driver.ErrUnreachable, errors.Join(err, ctx.Err()))
}

var errTooMuch = errors.New("too much output")

// readReport reads up to the line before the helper's answer, or the line that says root was denied. At the end of
// the output the line is empty.
func readReport(r *bufio.Reader) (report []byte, end string, err error) {
	begins := true
	for {
		part, err := r.ReadSlice('\n')
		if begins && (string(part) == helperLine || string(part) == deniedLine) {
			return report, string(part), nil
		}
		report = append(report, part...)
		begins = err == nil
		switch {
		case len(report) > sshclient.MaxOutput:
			return nil, "", errTooMuch
		case err == io.EOF:
			return report, "", nil
		case err != nil && err != bufio.ErrBufferFull:
			return report, "", err
		}
	}
}

// readAnswer reads frames up to the result, or the text printed instead of frames.
func readAnswer(r *bufio.Reader, x exchange, in io.Writer) (a answer, err error) {
	first, err := r.Peek(1)
	if err == io.EOF {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	if first[0] > wire.MaxFrame>>24 { // no frame length starts with this byte
		text, err := io.ReadAll(io.LimitReader(r, maxSaid))
		go io.Copy(io.Discard, r) // so that the command can end
		a.said = site.PrintableLines(strings.ToValidUTF8(string(text), ""))
		a.lines = strings.Split(strings.TrimSpace(a.said), "\n")
		return a, err
	}
	for {
		var f wire.Frame
		if err := wire.Read(r, &f); err != nil {
			a.said = "the helper did not answer to the end: " + site.Printable(err.Error())
			return a, nil
		}
		switch {
		case f.Result != nil:
			a.result = f.Result
			return a, nil
		case f.Want != nil:
			if err := x.send(in, *f.Want); err != nil {
				return a, err
			}
		case f.Progress != nil && x.tell != nil:
			x.tell(*f.Progress)
		}
	}
}

// says returns the rest of the first line that starts with a word, and whether such a line exists.
func (a answer) says(word string) (rest string, ok bool) {
	for _, l := range a.lines {
		if first, rest, _ := strings.Cut(strings.TrimSpace(l), " "); first == word {
			return rest, true
		}
	}
	return "", false
}

// clipped keeps the beginning of the data written to it.
type clipped struct {
	mu   sync.Mutex
	text []byte
}

func (c *clipped) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, b[:min(len(b), maxSaid-len(c.text))]...)
	return len(b), nil
}

func (c *clipped) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return site.PrintableLines(strings.ToValidUTF8(string(c.text), ""))
}
