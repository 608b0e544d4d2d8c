package web

import (
	"bytes"
	"time"

	"github.com/slipway-gitops/slipway/engine/present"
)

const (
	// readEvery is how often an open page about a console has it read. That is less often than `slipway logs --follow` does.
	readEvery = 3 * time.Second
	// mostConsole is how much of a console is shown, in bytes.
	mostConsole = 64 << 10
)

type consolePage struct {
	Text string
	Cut  bool // there is more before it
}

func console(q *request) (any, []string, error) {
	var text []byte
	q.whole = true // base64, which must not be cut
	if err := q.get(q.ofNode("/console"), &text); err != nil {
		return nil, nil, err
	}
	p := consolePage{}
	if p.Cut = len(text) > mostConsole; p.Cut {
		text = text[len(text)-mostConsole:]
		text = text[bytes.IndexByte(text, '\n')+1:] // whole lines
	}
	p.Text = present.ConsoleText(text)
	return p, []string{q.ofNode("/console")}, nil
}

// isUntouched says whether the content of a page is not loaded, because that would ask a machine.
func isUntouched(content any) bool {
	_, is := content.(untouched)
	return is
}
