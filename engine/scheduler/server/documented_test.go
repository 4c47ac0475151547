package server_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// documented returns the interface of the documented service, compiled from its own files. It
// is not registered, because a process cannot have two interfaces with the same names. protoc
// has compiled it; where it is installed, it does so again.
func documented(t *testing.T) *protoregistry.Files {
	t.Helper()
	const folder = "testdata/documented"
	compiled := filepath.Join(folder, "descriptors.binpb")
	if _, err := exec.LookPath("protoc"); err == nil {
		again := filepath.Join(t.TempDir(), "descriptors.binpb")
		out, err := exec.CommandContext(t.Context(), "protoc", "-I", folder, "--include_imports",
			"--descriptor_set_out="+again, "proto/scheduler/scheduler.proto").CombinedOutput()
		if err != nil {
			t.Fatalf("protoc: %v\n%s", err, out)
		}
		compiled = again
	}
	text, err := os.ReadFile(compiled)
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// call calls a method of an interface as its clients do: by its name, with messages that have
// only its fields.
func call(t *testing.T, c *grpc.ClientConn, files *protoregistry.Files, method string, fields map[string]any) protoreflect.Message {
	t.Helper()
	found, err := files.FindDescriptorByName("scheduler.v1.SchedulerService")
	if err != nil {
		t.Fatal(err)
	}
	m := found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(method))
	request, response := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	for name, value := range fields {
		request.Set(m.Input().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOf(value))
	}
	if err := c.Invoke(t.Context(), "/scheduler.v1.SchedulerService/"+method, request, response); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return response
}

// A client that was compiled from the documented service's files works unchanged: what it
// sends is understood, and it finds the outcome where it looks.
func TestDocumentedClient(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	c := dial(t, r.address)
	files := documented(t)
	at := time.Now().Add(time.Hour).Unix()
	event := func(payload string) map[string]any {
		return map[string]any{"event_id": id(1), "execute_at": at, "payload": []byte(payload), "topic": "orders"}
	}
	for _, one := range []struct {
		method string
		fields map[string]any
		want   protoreflect.Name
	}{
		{"Schedule", event("paid"), "SUCCESS"},
		{"Schedule", event("paid"), "SUCCESS"},
		{"Schedule", event("unpaid"), "CONFLICT"},
		{"Schedule", map[string]any{"event_id": "7"}, "BAD_REQUEST"},
		{"Cancel", map[string]any{"event_id": id(1)}, "SUCCESS"},
		{"Cancel", map[string]any{"event_id": id(1)}, "NO_CONTENT"},
		{"Cancel", map[string]any{"event_id": id(2)}, "NOT_FOUND"},
	} {
		response := call(t, c, files, one.method, one.fields)
		outcome := response.Get(response.Descriptor().Fields().ByName("status")).Message()
		code := outcome.Descriptor().Fields().ByName("code")
		message := outcome.Get(outcome.Descriptor().Fields().ByName("message")).String()
		got := code.Enum().Values().ByNumber(outcome.Get(code).Enum()).Name()
		if got != one.want || (got == "SUCCESS") != (message == "") {
			t.Errorf("%s %v: %s %q, want %s", one.method, one.fields, got, message, one.want)
		}
	}
	if e := r.events[id(1)]; e.Due.Unix() != at || string(e.Payload) != "paid" || e.Topic != "orders" {
		t.Errorf("stored %+v", e)
	}
}
