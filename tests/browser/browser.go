// Package browser drives a real Chromium in tests, as people use it: by its keys and its mouse, at the
// width of their screens, with and without scripts.
package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"
)

// patience bounds one request to the browser, and the wait for what a page is to show.
const patience = 60 * time.Second

// Browser is a running Chromium without a screen. It speaks the protocol of its developer tools over pipes.
type Browser struct {
	to      io.Writer
	gone    chan struct{} // closed when the browser has ended
	asked   sync.Mutex    // guards to, last, answers and pages
	last    int
	answers map[int]chan message
	pages   map[string]*Page // by session
}

// message is one of the protocol: a request, its answer, or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Open starts Chromium for a test.
func Open(t testing.TB) *Browser {
	t.Helper()
	program := Program(t)
	reads, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := Command(context.Background(), program, t.TempDir(), "--remote-debugging-pipe", "--ignore-certificate-errors", "about:blank")
	cmd.ExtraFiles = []*os.File{reads, writes} // 3 and 4, as the browser expects
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reads.Close()
	writes.Close()
	b := &Browser{to: to, gone: make(chan struct{}), answers: map[int]chan message{}, pages: map[string]*Page{}}
	go b.read(from)
	t.Cleanup(func() {
		ended := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		b.ask("", "Browser.close", nil, nil)
		cmd.Wait()
		ended.Stop()
		to.Close()
		<-b.gone
		from.Close()
	})
	return b
}

// read takes what the browser says, until it ends.
func (b *Browser) read(from io.Reader) {
	defer close(b.gone)
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m) != nil {
			continue
		}
		answer, page := b.addressees(m)
		switch {
		case answer != nil:
			answer <- m
		case page != nil:
			page.take(m)
		}
	}
}

// addressees are who a message is for: who has asked, or the page that an event is about.
func (b *Browser) addressees(m message) (chan message, *Page) {
	b.asked.Lock()
	defer b.asked.Unlock()
	answer := b.answers[m.ID]
	delete(b.answers, m.ID)
	return answer, b.pages[m.Session]
}

// send writes a request, and gives where its answer comes.
func (b *Browser) send(session, method string, params any) (chan message, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	if params == nil {
		raw = nil
	}
	b.asked.Lock()
	defer b.asked.Unlock()
	b.last++
	text, err := json.Marshal(message{ID: b.last, Session: session, Method: method, Params: raw})
	if err != nil {
		return nil, err
	}
	answer := make(chan message, 1)
	b.answers[b.last] = answer
	_, err = b.to.Write(append(text, 0))
	return answer, err
}

// ask sends a request and reads its answer into a value, unless that is nil.
func (b *Browser) ask(session, method string, params, into any) error {
	answer, err := b.send(session, method, params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s: no answer within %v", method, patience)
	case <-b.gone:
		return fmt.Errorf("%s: %w", method, errGone)
	case m := <-answer:
		switch {
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case into != nil:
			return json.Unmarshal(m.Result, into)
		}
		return nil
	}
}

var errGone = errors.New("the browser has ended")
