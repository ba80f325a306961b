package tickcast.interop;

import com.refinitiv.eta.codec.Buffer;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.CodecReturnCodes;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.DataTypes;
import com.refinitiv.eta.codec.DecodeIterator;
import com.refinitiv.eta.codec.EncodeIterator;
import com.refinitiv.eta.codec.FieldEntry;
import com.refinitiv.eta.codec.FieldList;
import com.refinitiv.eta.codec.MapEntry;
import com.refinitiv.eta.codec.Msg;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.RefreshMsg;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import com.refinitiv.eta.codec.UpdateMsg;
import com.refinitiv.eta.rdm.DomainTypes;
import com.refinitiv.eta.transport.Channel;
import com.refinitiv.eta.transport.ChannelInfo;
import com.refinitiv.eta.transport.ChannelState;
import com.refinitiv.eta.transport.Error;
import com.refinitiv.eta.transport.InProgInfo;
import com.refinitiv.eta.transport.ReadArgs;
import com.refinitiv.eta.transport.TransportBuffer;
import com.refinitiv.eta.transport.TransportFactory;
import com.refinitiv.eta.transport.TransportReturnCodes;
import com.refinitiv.eta.valueadd.domainrep.rdm.MsgBase;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryMsg;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryMsgFactory;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryMsgType;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryRefresh;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.Service;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginMsg;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginMsgFactory;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginMsgType;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginRefresh;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginRequest;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginStatus;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** One provider's connection to the sink. */
final class SinkChannel {
    private static final int REPLY_BYTES = 2048;
    private static final int MESSAGES_AT_A_TIME = 1_000;

    private final Channel channel;
    private final SinkCounts counts;
    private final String loginReject;
    private final Error error = TransportFactory.createError();
    private final InProgInfo inProgress = TransportFactory.createInProgInfo();
    private final ReadArgs read = TransportFactory.createReadArgs();
    private final DecodeIterator decode = CodecFactory.createDecodeIterator();
    private final Msg msg = CodecFactory.createMsg();
    private final FieldList fields = CodecFactory.createFieldList();
    private final FieldEntry field = CodecFactory.createFieldEntry();
    /** Stream to DOMAIN:NAME. */
    private final Map<Integer, String> items = new HashMap<>();
    private long pingNs = System.nanoTime();
    private boolean isGone;

    /** @param loginReject the text with which a login is refused, null: it is accepted */
    SinkChannel(Channel channel, SinkCounts counts, String loginReject) {
        this.channel = channel;
        this.counts = counts;
        this.loginReject = loginReject;
        counts.add("connection");
    }

    boolean isGone() {
        return isGone;
    }

    /** Reads what is there; whether there was anything. */
    boolean work() {
        if (channel.state() == ChannelState.INITIALIZING) {
            return initialize();
        }
        boolean wasBusy = false;
        for (int i = 0; i < MESSAGES_AT_A_TIME && channel.state() == ChannelState.ACTIVE; i++) {
            TransportBuffer buffer = channel.read(read, error);
            if (buffer == null) {
                break;
            }
            wasBusy = true;
            onMessage(buffer);
        }
        int result = read.readRetVal();
        boolean isIdle = result >= TransportReturnCodes.SUCCESS
                || result == TransportReturnCodes.READ_WOULD_BLOCK
                || result == TransportReturnCodes.READ_PING;
        if (channel.state() != ChannelState.ACTIVE || !isIdle) {
            close();
        } else if (System.nanoTime() - pingNs > channel.pingTimeout() * 300_000_000L) {
            pingNs = System.nanoTime();
            channel.ping(error);
            channel.flush(error);
        }
        return wasBusy;
    }

    private boolean initialize() {
        if (channel.init(inProgress, error) < TransportReturnCodes.SUCCESS) {
            Json.line("handshake_failed", "text", error.text());
            close();
        } else if (channel.state() == ChannelState.ACTIVE) {
            ChannelInfo info = TransportFactory.createChannelInfo();
            channel.info(info, error);
            Json.line("connected", "ping_timeout_s", info.pingTimeout(),
                    "compression", info.compressionType(), "host", info.clientHostname(),
                    "address", info.clientIP());
        }
        return false;
    }

    private void close() {
        channel.close(error);
        isGone = true;
        Json.line("disconnected");
    }

    private void onMessage(TransportBuffer buffer) {
        decode.clear();
        decode.setBufferAndRWFVersion(buffer, channel.majorVersion(), channel.minorVersion());
        msg.clear();
        int result = msg.decode(decode);
        if (result < CodecReturnCodes.SUCCESS) {
            counts.undecodable("a message: " + CodecReturnCodes.toString(result));
            return;
        }
        if (msg.domainType() == DomainTypes.LOGIN) {
            onLogin();
        } else if (msg.domainType() == DomainTypes.SOURCE) {
            onDirectory();
        } else {
            onItem();
        }
    }

    private void onLogin() {
        if (msg.msgClass() != MsgClasses.REQUEST) {
            counts.add("logout");
            Json.line("logout");
            return;
        }
        counts.add("login");
        LoginMsg login = LoginMsgFactory.createMsg();
        login.rdmMsgType(LoginMsgType.REQUEST);
        login.decode(decode, msg);
        LoginRequest request = (LoginRequest) login;
        Json.line("login", "user", request.userName().toString(), "role", request.role(),
                "application_id", text(request.attrib().applicationId()),
                "position", text(request.attrib().position()), "stream", msg.streamId());
        reply(loginReject == null ? accept(request) : reject());
    }

    private static String text(Buffer buffer) {
        return buffer.length() == 0 ? null : buffer.toString();
    }

    private MsgBase accept(LoginRequest request) {
        LoginMsg msg = LoginMsgFactory.createMsg();
        msg.rdmMsgType(LoginMsgType.REFRESH);
        LoginRefresh refresh = (LoginRefresh) msg;
        refresh.applySolicited();
        refresh.state().streamState(StreamStates.OPEN);
        refresh.state().dataState(DataStates.OK);
        refresh.state().text().data("welcome, provider");
        refresh.applyHasUserName();
        refresh.userName().data(request.userName().toString());
        refresh.applyHasAttrib();
        refresh.attrib().applyHasSingleOpen();
        refresh.attrib().singleOpen(1);
        refresh.attrib().applyHasAllowSuspectData();
        refresh.attrib().allowSuspectData(1);
        return refresh;
    }

    private MsgBase reject() {
        LoginMsg msg = LoginMsgFactory.createMsg();
        msg.rdmMsgType(LoginMsgType.STATUS);
        LoginStatus status = (LoginStatus) msg;
        status.applyHasState();
        status.state().streamState(StreamStates.CLOSED);
        status.state().dataState(DataStates.SUSPECT);
        status.state().code(StateCodes.NOT_ENTITLED);
        status.state().text().data(loginReject);
        return status;
    }

    private void reply(MsgBase reply) {
        reply.streamId(msg.streamId());
        TransportBuffer buffer = channel.getBuffer(REPLY_BYTES, false, error);
        EncodeIterator encode = CodecFactory.createEncodeIterator();
        encode.setBufferAndRWFVersion(buffer, channel.majorVersion(), channel.minorVersion());
        int encoded = reply.encode(encode);
        int written = channel.write(buffer, TransportFactory.createWriteArgs(), error);
        // It is the first message on this connection, so there is room for it.
        if (encoded < CodecReturnCodes.SUCCESS || written < TransportReturnCodes.SUCCESS) {
            throw new IllegalStateException("no answer to the login: " + encoded + " " + error.text());
        }
        channel.flush(error);
    }

    private void onDirectory() {
        counts.add("directory");
        List<Object> services = new ArrayList<>();
        if (msg.msgClass() == MsgClasses.REFRESH) {
            DirectoryMsg directory = DirectoryMsgFactory.createMsg();
            directory.rdmMsgType(DirectoryMsgType.REFRESH);
            if (directory.decode(decode, msg) < CodecReturnCodes.SUCCESS) {
                counts.undecodable("the directory");
                return;
            }
            for (Service service : ((DirectoryRefresh) directory).serviceList()) {
                services.add(Json.object("id", service.serviceId(),
                        "name", service.info().serviceName().toString(),
                        "up", service.state().serviceState()));
            }
        }
        Json.line("directory", "message", kind(), "stream", msg.streamId(), "services", services);
    }

    private String kind() {
        return MsgClasses.toString(msg.msgClass()).toLowerCase(Locale.ROOT);
    }

    private void onItem() {
        counts.add(kind());
        if (msg.msgKey() != null && msg.msgKey().checkHasName()) {
            items.put(msg.streamId(), msg.domainType() + ":" + msg.msgKey().name());
        }
        String item = items.get(msg.streamId());
        if (item == null) {
            counts.undecodable("a " + kind() + " of stream " + msg.streamId() + ", which has no name");
            return;
        }
        long seq = sequence(item);
        boolean hasService = msg.msgKey() != null && msg.msgKey().checkHasServiceId();
        Json.line(kind(), "item", item, "stream", msg.streamId(),
                "service_id", hasService ? msg.msgKey().serviceId() : null, "seq", seq < 0 ? null : seq,
                "container", DataTypes.toString(msg.containerType()), "entries", entries(item));
    }

    /** The sequence number, -1 if there is none. */
    private long sequence(String item) {
        if (msg.msgClass() == MsgClasses.REFRESH) {
            long seq = ((RefreshMsg) msg).checkHasSeqNum() ? ((RefreshMsg) msg).seqNum() : -1;
            counts.sequence(item).onRefresh(seq);
            return seq;
        }
        if (msg.msgClass() == MsgClasses.UPDATE) {
            long seq = ((UpdateMsg) msg).checkHasSeqNum() ? ((UpdateMsg) msg).seqNum() : -1;
            counts.sequence(item).onUpdate(seq);
            return seq;
        }
        return -1;
    }

    /** Fields of a field list by number with their bytes, or the number of entries of a map. */
    private Object entries(String item) {
        switch (msg.containerType()) {
            case DataTypes.FIELD_LIST:
                return fields(item);
            case DataTypes.MAP:
                return mapEntryCount(item);
            default:
                return null;
        }
    }

    private Map<String, Object> fields(String item) {
        Map<String, Object> found = new TreeMap<>();
        int result = fields.decode(decode, null);
        while (result == CodecReturnCodes.SUCCESS) {
            result = field.decode(decode);
            if (result == CodecReturnCodes.SUCCESS) {
                found.put(Integer.toString(field.fieldId()), hex(field.encodedData()));
            }
        }
        checkEnd(result, item);
        return found;
    }

    private static String hex(Buffer content) {
        if (content.length() == 0) {
            return "";
        }
        ByteBuffer bytes = content.data().duplicate();
        bytes.limit(content.position() + content.length());
        bytes.position(content.position());
        return Value.hexText(bytes);
    }

    private int mapEntryCount(String item) {
        com.refinitiv.eta.codec.Map map = CodecFactory.createMap();
        MapEntry entry = CodecFactory.createMapEntry();
        int count = 0;
        int result = map.decode(decode);
        while (result == CodecReturnCodes.SUCCESS) {
            result = entry.decode(decode, null);
            count += result == CodecReturnCodes.SUCCESS ? 1 : 0;
        }
        checkEnd(result, item);
        return count;
    }

    private void checkEnd(int result, String item) {
        if (result != CodecReturnCodes.END_OF_CONTAINER && result != CodecReturnCodes.NO_DATA) {
            counts.undecodable("the payload of " + item + ": " + CodecReturnCodes.toString(result));
        }
    }
}
