package dev.leasehold.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

/** Names of clients that set none. */
class ClientNameTest {
    @Test
    void defaultNamesAreBoundedAndHaveNoControlCharacters() {
        assertEquals("billing@vm/7", ClientName.of("billing", "vm", 7));
        assertEquals("bill@unknown/7", ClientName.of("b\n\u007f\u0085ill", "", 7));
        String longest = ClientName.of("é".repeat(300), "h".repeat(300), 7);
        assertEquals("é".repeat(16) + "@" + "h".repeat(64) + "/7", longest);
        for (String command : List.of("shop.Billing --all", "/opt/Billing.jar a.b", "shop/shop.Billing")) {
            assertEquals("Billing", ClientName.program(command));
        }
        assertTrue(ClientName.byDefault().endsWith("/" + ProcessHandle.current().pid()));
    }
}
