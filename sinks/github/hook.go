package github

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/secret"
)

// These are the bounds of one delivery. GitHub sends up to 25 MB, for events that Slipway does not need, and waits
// for 10 seconds.
const (
	maxDelivery   = 4 << 20
	bodyTimeout   = 5 * time.Second
	maxDeliveries = 16 // read at the same time
)

// KeepDeliveries is how long an accepted delivery must be remembered. GitHub redelivers what is up to three days
// old.
const KeepDeliveries = 3 * 24 * time.Hour

// Deliveries remembers the accepted deliveries by GitHub's GUID. Its methods return well within a second.
type Deliveries interface {
	// Taken reports whether a delivery was accepted in the last KeepDeliveries.
	Taken(guid string) bool
	// Take remembers a delivery as accepted.
	Take(guid string) error
}

// Hook receives GitHub's webhooks and turns those about one repository into hints. A hint only says where to look.
// The content is then read from GitHub.
type Hook struct {
	repository string
	secret     func() (secret.Value, error)
	deliveries Deliveries
	hints      *forge.Hints
	log        *slog.Logger
	room       chan struct{}
}

// NewHook makes a handler of deliveries for a repository, "owner/name". It calls secret for the webhook's secret at
// each delivery.
func NewHook(repository string, secret func() (secret.Value, error), deliveries Deliveries, hints *forge.Hints, log *slog.Logger) *Hook {
	return &Hook{repository, secret, deliveries, hints, log, make(chan struct{}, maxDeliveries)}
}

var guid = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// ServeHTTP answers 202 to a delivery that it accepts, has accepted before, or that does not concern us. GitHub
// counts any other answer as not delivered, so that a redelivery can be requested.
func (h *Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, err := h.take(w, r)
	if err != nil {
		h.log.Debug("webhook delivery refused", "err", err) // anybody can send one
		http.Error(w, err.Error(), status)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// take handles a delivery. With an error it returns the status to answer.
func (h *Hook) take(w http.ResponseWriter, r *http.Request) (int, error) {
	select {
	case h.room <- struct{}{}:
		defer func() { <-h.room }()
	default:
		return http.StatusServiceUnavailable, errors.New("too many deliveries at once: deliver it again later")
	}
	id := r.Header.Get("X-Github-Delivery")
	switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); {
	case r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, errors.New("this address takes only webhooks, sent with POST")
	case kind != "application/json":
		return http.StatusUnsupportedMediaType, errors.New("the webhook does not send JSON: set its content type to application/json")
	case !guid.MatchString(id):
		return http.StatusBadRequest, errors.New("there is no X-GitHub-Delivery: this address is for GitHub's webhooks")
	}
	body, status, err := payload(w, r)
	if err != nil {
		return status, err
	}
	key, err := h.key()
	switch {
	case err != nil || key == "":
		h.log.Error("webhook secret missing", "err", err)
		return http.StatusInternalServerError, errors.New("the webhook's secret is not set here")
	case !authentic(r.Header.Get("X-Hub-Signature-256"), body, key):
		return http.StatusUnauthorized, errors.New("the signature is not of the webhook's secret: set the same secret in GitHub and here")
	case h.deliveries.Taken(id):
		return 0, nil
	}
	if hint, ok := h.hint(r.Header.Get("X-Github-Event"), body); ok {
		h.hints.Add(hint)
	}
	if err := h.deliveries.Take(id); err != nil { // the delivery may then be accepted twice, which does no harm
		h.log.Warn("webhook delivery not remembered", "err", err)
	}
	return 0, nil
}

// key is the key that GitHub signs deliveries with.
func (h *Hook) key() (string, error) {
	v, err := h.secret()
	if err != nil {
		return "", err
	}
	return v.Password()
}

// payload reads a delivery's body, with limits on size and time.
func payload(w http.ResponseWriter, r *http.Request) ([]byte, int, error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // a test's writer has none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDelivery))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, http.StatusRequestEntityTooLarge, errors.New("the delivery is too large: Slipway finds what has changed without it")
	case err != nil:
		return nil, http.StatusBadRequest, errors.New("the delivery did not arrive as a whole")
	}
	return body, 0, nil
}

// authentic compares a signature "sha256=…" in constant time. The older X-Hub-Signature, with SHA-1, is not
// accepted.
func authentic(signature string, body []byte, key string) bool {
	digits, ok := strings.CutPrefix(signature, "sha256=")
	got, err := hex.DecodeString(digits)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return hmac.Equal(got, mac.Sum(nil)) && ok && err == nil
}

// news is the part of a delivery that is read.
type news struct {
	Action     string `json:"action"`
	Ref        string `json:"ref"`
	Number     int    `json:"number"`
	Repository struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
	PullRequest *numbered `json:"pull_request"`
	Issue       *struct {
		numbered
		PullRequest *struct{} `json:"pull_request"`
	} `json:"issue"`
	Comment struct {
		ID int64 `json:"id"`
	} `json:"comment"`
	CheckRun struct {
		Name    string `json:"name"`
		HeadSHA string `json:"head_sha"`
	} `json:"check_run"`
	CheckSuite struct {
		HeadSHA string `json:"head_sha"`
	} `json:"check_suite"`
}

type numbered struct {
	Number int `json:"number"`
}

// hint says where to look after a delivery. An authentic delivery that cannot be parsed may be about anything.
func (h *Hook) hint(event string, body []byte) (forge.Hint, bool) {
	anything := forge.Hint{About: forge.AboutAnything}
	var n news
	if err := json.Unmarshal(body, &n); err != nil {
		h.log.Warn("webhook delivery not understood", "err", err)
		return anything, true
	}
	if !strings.EqualFold(n.Repository.FullName, h.repository) {
		return forge.Hint{}, false
	}
	switch event {
	case "push":
		branch, ok := strings.CutPrefix(n.Ref, "refs/heads/")
		return forge.Hint{About: forge.AboutBranch, Branch: branch}, ok
	case "pull_request", "pull_request_review":
		if n.PullRequest != nil && n.PullRequest.Number > 0 {
			return forge.Hint{About: forge.AboutProposal, Number: n.PullRequest.Number}, true
		}
	case "issue_comment":
		if n.Issue != nil && n.Issue.PullRequest == nil {
			return forge.Hint{}, false
		}
		if n.Issue != nil && n.Issue.Number > 0 {
			return forge.Hint{About: forge.AboutComment, Number: n.Issue.Number, Comment: n.Comment.ID}, n.Action == "created"
		}
	case "check_run":
		return forge.Hint{About: forge.AboutCheck, Check: n.CheckRun.Name, Commit: n.CheckRun.HeadSHA}, n.Action == "rerequested" || n.Action == "requested_action"
	case "check_suite":
		return forge.Hint{About: forge.AboutCheck, Commit: n.CheckSuite.HeadSHA}, n.Action == "rerequested"
	default:
		return forge.Hint{}, false
	}
	return anything, true
}
