package lab

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// reply sends a resource with its ETag.
func (x *exchange) reply(status int, b body) {
	text, tag := encode(b), ""
	if x.r.URL.RawQuery == "" { // else it would be of another representation
		tag = x.kind.tag(b, text)
	}
	if tag = x.spoiled(tag); tag != "" {
		x.w.Header().Set("ETag", tag)
		text = x.kind.tagged(text, tag)
	}
	x.describe(b)
	read := x.r.Method == http.MethodGet || x.r.Method == http.MethodHead
	if read && matches(x.r.Header.Get("If-None-Match"), tag) {
		x.w.WriteHeader(http.StatusNotModified)
		return
	}
	x.send(status, text)
}

// describe names the schema of a resource (DSP0266, Link header).
func (x *exchange) describe(b body) {
	t, _ := b["@odata.type"].(string)
	t = strings.TrimPrefix(t, "#")
	if i := strings.LastIndexByte(t, '.'); i > 0 {
		x.w.Header().Set("Link", fmt.Sprintf("<http://redfish.dmtf.org/schemas/v1/%s.json>; rel=describedby", t[:i]))
	}
}

func (x *exchange) send(status int, text []byte) {
	text = x.absolute(text)
	x.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	x.w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		x.w.Write(text)
	}
}

// tag is the ETag of a resource and its text, empty where the BMC has none. The
// time of day is no part of what it is made from.
func (p *personality) tag(b body, text []byte) string {
	style := p.etags
	if own, ok := b["@odata.etag"]; ok && style == etagsNone {
		style = etagsOf(own) // as the one that was captured
	}
	if kindOf(b) == "ManagerAccount" && style == etagsNone {
		style = etagsStrong // DSP0266, ETags, wants it there
	}
	if style == etagsNone {
		return ""
	}
	if b["@odata.etag"] != nil || b["DateTime"] != nil || b["@Message.ExtendedInfo"] != nil {
		b = maps.Clone(b)
		delete(b, "@odata.etag")
		delete(b, "DateTime")
		delete(b, "@Message.ExtendedInfo")
		text = encode(b)
	}
	h := fnv.New64a()
	h.Write(text)
	if style == etagsStrong {
		return fmt.Sprintf(`"%x"`, h.Sum64())
	}
	return fmt.Sprintf(`W/"%x"`, h.Sum64())
}

// tagged is the text of a resource with its ETag, where every resource has one
// that did not get it before.
func (p *personality) tagged(text []byte, tag string) []byte {
	if p.contexts || !p.complete {
		return text
	}
	return slices.Concat([]byte(`{"@odata.etag":`), encode(tag), []byte(","), text[1:])
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is ours, or was JSON before
	}
	return text
}

// matches says whether an ETag is among those of a header, compared as
// If-None-Match is (RFC 9110 13.1.2).
func matches(header, tag string) bool {
	for want := range strings.SplitSeq(header, ",") {
		want = strings.TrimSpace(want)
		if tag != "" && (want == "*" || strings.TrimPrefix(want, "W/") == strings.TrimPrefix(tag, "W/")) {
			return true
		}
	}
	return false
}

// current says whether a request is for the resource as it is (DSP0266, ETags);
// like most BMCs it takes an ETag without its W/ for the same. It answers
// itself when the resource is another by now.
func (x *exchange) current(b body) bool {
	want, tag := x.r.Header.Get("If-Match"), x.spoiled(x.kind.tag(b, encode(b)))
	if want == "" || want == "*" || matches(want, tag) && !x.spurns(want) {
		return true
	}
	x.fail(http.StatusPreconditionFailed, "PreconditionFailed")
	return false
}

// fail answers with an error.
func (x *exchange) fail(status int, id string, args ...string) {
	x.failWith(status, x.kind.speech.info(id, args...))
}

// failWith answers with an error of these messages.
func (x *exchange) failWith(status int, infos ...body) {
	b := x.kind.speech.fault(infos...)
	if x.meets(FaultInfoObject) {
		e := b["error"].(body)
		e["@Message.ExtendedInfo"] = items(e["@Message.ExtendedInfo"])[0]
	}
	x.send(status, encode(b))
}

// done answers that it was done, without more to say: with nothing, or a
// message that says just that.
func (x *exchange) done() {
	if x.kind.speech.talks {
		x.say("Success")
		return
	}
	x.w.WriteHeader(http.StatusNoContent)
}

// say answers a success with a message.
func (x *exchange) say(id string) {
	x.send(http.StatusOK, encode(x.kind.speech.fault(x.kind.speech.info(id))))
}
