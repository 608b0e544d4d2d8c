package redfish

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// messageID is how said begins a message: with its registry, version and key.
var messageID = regexp.MustCompile(`^[A-Za-z]+\.[0-9.]+\.[A-Za-z0-9]+: `)

// Plain implements driver.Plain.
func (e *answerError) Plain() string {
	status := fmt.Sprintf("%d %s", e.status, http.StatusText(e.status))
	said, _, _ := strings.Cut(e.said, ": the BMC advises:")
	said = strings.TrimRight(messageID.ReplaceAllString(said, ""), ".:; ")
	if said == "" {
		said = status
	}
	switch {
	case errors.Is(e.class, driver.ErrDenied) && e.status == http.StatusForbidden:
		return "the BMC lets the account read nothing (" + status + "): give it the right to log in and to read"
	case errors.Is(e.class, driver.ErrDenied) && slices.Contains(e.ids, "NoValidSession"):
		return "the BMC took the login and then refused its own session (" + status + "): reset the BMC if that continues"
	case errors.Is(e.class, driver.ErrDenied):
		return "wrong BMC password or locked account"
	case e.status >= 500 && e.status != http.StatusServiceUnavailable:
		return "the BMC answers with an error of its own (" + status + ")"
	case errors.Is(e.class, driver.ErrBusy):
		return "the BMC is busy: " + said
	case e.method == http.MethodGet && e.status == http.StatusNotFound:
		return fmt.Sprintf("the BMC has no %s: check that the endpoint's URL names the machine's system", e.path)
	case errors.Is(e.class, errors.ErrUnsupported):
		return "the BMC cannot do it: " + said
	}
	return "the BMC refuses it: " + said
}
