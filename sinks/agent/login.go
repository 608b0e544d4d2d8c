package agent

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// howLoggedIn is how the connection logged in. Where a certificate was refused it asks the
// system for its time: a clock that is off is the usual cause, and no server says so.
func (c *connection) howLoggedIn(ctx context.Context) *site.Login {
	l := &site.Login{By: c.entry.By, Account: site.Printable(c.entry.Account), Refused: site.Printable(c.entry.Refused), Host: c.entry.Host}
	if l.Refused == "" {
		return l
	}
	_, a, err := c.run(ctx, exchange{script: "echo; echo --helper; date -u +%s"})
	if err != nil {
		return l
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(a.said), 10, 64)
	if err != nil {
		return l
	}
	off := time.Until(time.Unix(seconds, 0)).Round(time.Minute)
	if off.Abs() > time.Hour {
		off = off.Round(time.Hour)
	}
	l.Clock = site.Duration(off)
	return l
}
