package github

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// object is a JSON object.
type object = map[string]any

// answer is what is said to a request.
type answer struct {
	status int
	body   any // nil for none
	header http.Header
	raw    []byte // the body as sent
	limit  string // primary or secondary, for being which it is refused
}

const docsRoot = "https://docs.github.com"

func ok(body any) answer      { return answer{status: http.StatusOK, body: body} }
func created(body any) answer { return answer{status: http.StatusCreated, body: body} }

var (
	noContent    = answer{status: http.StatusNoContent}
	notFound     = *failed(http.StatusNotFound, "Not Found", "/rest")
	unauthorized = *failed(http.StatusUnauthorized, "Requires authentication", "/rest")
)

// failed is an error as GitHub gives it.
func failed(status int, message, docs string) *answer {
	return &answer{status: status, body: object{"message": message, "documentation_url": docsRoot + docs, "status": fmt.Sprint(status)}}
}

func refused(message string) *answer { return failed(http.StatusForbidden, message, "/rest") }

// invalid is the answer to a request that is well formed and cannot be done:
// one field of one kind of resource, and what is wrong with it.
func invalid(resource, field, message string) answer {
	return answer{status: http.StatusUnprocessableEntity, body: object{
		"message": "Validation Failed", "documentation_url": docsRoot + "/rest",
		"errors": []object{{"resource": resource, "field": field, "code": "custom", "message": message}},
	}}
}

// encode fills in the bytes.
func (a *answer) encode() {
	if a.body == nil || a.raw != nil {
		return
	}
	raw, err := json.Marshal(a.body)
	if err != nil {
		panic(err)
	}
	a.raw = raw
}

// conditional turns an answer into 304 when the caller has it already. The tag
// is weak and depends on who asks, as GitHub's does (it varies by
// Authorization).
func (a *answer) conditional(r *http.Request, h http.Header) {
	if r.Method != http.MethodGet || a.status != http.StatusOK {
		return
	}
	sum := sha256.New()
	for _, name := range []string{"Accept", "Authorization"} {
		fmt.Fprintf(sum, "%s\n", r.Header.Get(name))
	}
	sum.Write(a.raw)
	tag := fmt.Sprintf(`W/"%x"`, sum.Sum(nil))
	h.Set("ETag", tag)
	h.Set("Vary", "Accept, Authorization, Cookie, X-GitHub-OTP")
	h.Set("Cache-Control", "private, max-age=60, s-maxage=60")
	if r.Header.Get("If-None-Match") == tag {
		*a = answer{status: http.StatusNotModified}
	}
}

// stamp is a time as GitHub writes it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// stampOr is null for a time that has not come.
func stampOr(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return stamp(t)
}

// textOr is null for an empty text.
func textOr(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func readCloser(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }
