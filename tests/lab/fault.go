package lab

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// FaultKind is a way in which a BMC misbehaves.
type FaultKind string

// The kinds of fault.
const (
	FaultNone        FaultKind = ""
	FaultBusy        FaultKind = "busy"         // 503 with Retry-After in seconds
	FaultBusyDate    FaultKind = "busy-date"    // 503 with Retry-After as a date
	FaultHang        FaultKind = "hang"         // accepts and never answers
	FaultRefuse      FaultKind = "refuse"       // closes every connection
	FaultWrongUUID   FaultKind = "wrong-uuid"   // another machine's UUID and serial
	FaultNoEffect    FaultKind = "no-effect"    // writes are accepted and do nothing
	FaultHTML        FaultKind = "html"         // a login page instead of Redfish
	FaultExpired     FaultKind = "expired"      // its certificate has expired
	FaultOtherCert   FaultKind = "other-cert"   // its certificate is from another authority
	FaultNoShutdown  FaultKind = "no-shutdown"  // its system ignores a graceful shutdown
	FaultServerError FaultKind = "server-error" // 500 to everything
)

// FaultKinds lists the kinds.
var FaultKinds = []FaultKind{FaultBusy, FaultBusyDate, FaultHang, FaultRefuse, FaultWrongUUID, FaultNoEffect,
	FaultHTML, FaultExpired, FaultOtherCert, FaultNoShutdown, FaultServerError}

// Fault is something that is wrong with a machine.
type Fault struct {
	Kind FaultKind `json:"kind,omitempty"`
	// RetryAfter is what a busy BMC asks for, in seconds.
	RetryAfter int `json:"retryAfter,omitempty"`
}

// ParseFault reads a kind; "none" and "" heal.
func ParseFault(s string) (Fault, error) {
	if s == "" || s == "none" {
		return Fault{}, nil
	}
	if !slices.Contains(FaultKinds, FaultKind(s)) {
		return Fault{}, fmt.Errorf("there is no fault %q; there are: %v", s, FaultKinds)
	}
	return Fault{Kind: FaultKind(s), RetryAfter: 2}, nil
}

// disturb answers in a fault's way, and says whether it did.
func (f Fault) disturb(w http.ResponseWriter, r *http.Request) bool {
	switch f.Kind {
	case FaultBusy:
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		fail(w, http.StatusServiceUnavailable, "Base.1.18.ServiceTemporarilyUnavailable", "The service is temporarily unavailable. Retry in "+strconv.Itoa(f.RetryAfter)+" seconds.")
	case FaultBusyDate:
		w.Header().Set("Retry-After", time.Now().Add(time.Duration(f.RetryAfter)*time.Second).UTC().Format(http.TimeFormat))
		fail(w, http.StatusServiceUnavailable, "Base.1.18.ServiceTemporarilyUnavailable", "The service is temporarily unavailable.")
	case FaultHang:
		<-r.Context().Done()
	case FaultHTML:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write([]byte("<!DOCTYPE html><html><head><title>Log in</title></head><body><form>…</form></body></html>"))
	case FaultServerError:
		fail(w, http.StatusInternalServerError, "Base.1.18.InternalError", "The request failed due to an internal service error.")
	default:
		return false
	}
	return true
}

// picky drops connections to addresses that are no machine's, and those of
// machines that refuse.
type picky struct {
	net.Listener
	machines map[string]*Machine
}

func (l picky) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		m := at(l.machines, c.LocalAddr())
		if m != nil && m.State().Fault.Kind != FaultRefuse {
			return c, nil
		}
		c.Close()
	}
}
