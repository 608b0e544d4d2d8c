package lab

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// FaultKind is a way in which a BMC misbehaves.
type FaultKind string

// The kinds of fault.
const (
	FaultNone         FaultKind = ""
	FaultBusy         FaultKind = "busy"          // 503 with Retry-After in seconds
	FaultBusyDate     FaultKind = "busy-date"     // 503 with Retry-After as a date
	FaultHang         FaultKind = "hang"          // accepts and never answers
	FaultRefuse       FaultKind = "refuse"        // closes every connection
	FaultWrongUUID    FaultKind = "wrong-uuid"    // another machine's UUID and serial
	FaultNoEffect     FaultKind = "no-effect"     // writes are accepted and do nothing
	FaultHTML         FaultKind = "html"          // a login page instead of Redfish
	FaultExpired      FaultKind = "expired"       // its certificate has expired
	FaultOtherCert    FaultKind = "other-cert"    // its certificate is from another authority
	FaultNoShutdown   FaultKind = "no-shutdown"   // its system ignores a graceful shutdown
	FaultServerError  FaultKind = "server-error"  // 500 to everything
	FaultSlow         FaultKind = "slow"          // answers late
	FaultPendingShown FaultKind = "pending-shown" // pending settings are shown as current
	FaultBIOSDropped  FaultKind = "bios-dropped"  // settings are applied without effect
	FaultBIOSFails    FaultKind = "bios-fails"    // applying settings ends with errors
	FaultNoLocation   FaultKind = "no-location"   // a task is accepted and not said where it is
)

// FaultKinds lists the kinds.
var FaultKinds = []FaultKind{FaultBusy, FaultBusyDate, FaultHang, FaultRefuse, FaultWrongUUID, FaultNoEffect,
	FaultHTML, FaultExpired, FaultOtherCert, FaultNoShutdown, FaultServerError, FaultSlow, FaultPendingShown, FaultBIOSDropped, FaultBIOSFails, FaultNoLocation}

// Fault is something that is wrong with a machine.
type Fault struct {
	Kind FaultKind `json:"kind,omitempty"`
	// RetryAfter is what a busy BMC asks for, in seconds.
	RetryAfter int `json:"retryAfter,omitempty"`
	// Delay is how much later a slow BMC answers, at speed 1.
	Delay site.Duration `json:"delay,omitempty"`
}

// ParseFault reads a kind; "none" and "" heal.
func ParseFault(s string) (Fault, error) {
	if s == "" || s == "none" {
		return Fault{}, nil
	}
	if !slices.Contains(FaultKinds, FaultKind(s)) {
		return Fault{}, fmt.Errorf("there is no fault %q; there are: %v", s, FaultKinds)
	}
	return Fault{Kind: FaultKind(s), RetryAfter: 2, Delay: site.Duration(10 * time.Second)}, nil
}

// ofConnections says whether a fault is met in connecting.
func (f Fault) ofConnections() bool {
	return f.Kind == FaultRefuse || f.Kind == FaultExpired || f.Kind == FaultOtherCert
}

// ofAnswers says whether a fault is met in the answer to each request.
func (f Fault) ofAnswers() bool {
	return slices.Contains([]FaultKind{FaultBusy, FaultBusyDate, FaultHang, FaultRefuse, FaultHTML, FaultServerError, FaultSlow}, f.Kind)
}

// disturb answers in a fault's way, and says whether it did.
func (m *Machine) disturb(f Fault, w http.ResponseWriter, r *http.Request) bool {
	switch f.Kind {
	case FaultBusy:
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		say(w, http.StatusServiceUnavailable, m.kind.speech.fault(m.kind.speech.info("ServiceTemporarilyUnavailable", strconv.Itoa(f.RetryAfter))))
	case FaultBusyDate:
		w.Header().Set("Retry-After", time.Now().Add(time.Duration(f.RetryAfter)*time.Second).UTC().Format(http.TimeFormat))
		say(w, http.StatusServiceUnavailable, m.kind.speech.fault(m.kind.speech.info("ServiceTemporarilyUnavailable", strconv.Itoa(f.RetryAfter))))
	case FaultHang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case FaultRefuse:
		panic(http.ErrAbortHandler) // closes the connection without an answer
	case FaultHTML:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write([]byte("<!DOCTYPE html><html><head><title>Log in</title></head><body><form>…</form></body></html>"))
	case FaultServerError:
		say(w, http.StatusInternalServerError, m.kind.speech.fault(m.kind.speech.info("InternalError")))
	default:
		return false
	}
	return true
}

// chance is faults that any machine may meet.
type chance struct {
	rate   float64
	faults []Fault
}

// SetFaultRate lets a share of all requests, 0 to 1, meet one of the faults,
// a 503 unless others are given. The seed, the machine and the number of its
// request decide, so a machine that is asked the same meets the same. A fault
// of the machine itself goes before.
func (f *Fleet) SetFaultRate(rate float64, faults ...Fault) error {
	if len(faults) == 0 {
		faults = []Fault{{Kind: FaultBusy, RetryAfter: 1}}
	}
	for _, fault := range faults {
		if !fault.ofAnswers() {
			return fmt.Errorf("the fault %q is not one of single answers", fault.Kind)
		}
	}
	if rate < 0 || rate > 1 {
		return fmt.Errorf("a rate of faults is from 0 to 1, not %v", rate)
	}
	f.chance.Store(&chance{rate, slices.Clone(faults)})
	return nil
}

// faultOf is what a machine's nth request meets.
func (f *Fleet) faultOf(m *Machine, n int) Fault {
	own := locked(m, func() Fault { return m.fault })
	c := f.chance.Load()
	if own.ofAnswers() || c == nil || f.draw("fault "+m.config.Name, n) >= c.rate {
		return own
	}
	return c.faults[int(f.draw("kind "+m.config.Name, n)*float64(len(c.faults)))]
}

// lies says whether a write is to be accepted without effect.
func (x *exchange) lies() bool { return x.fault.Kind == FaultNoEffect }
